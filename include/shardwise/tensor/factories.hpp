// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Tensors from constants and from random numbers. A shape is written {2048, 1024}, or is that of another tensor.
///
/// ```
/// auto z = zeros<float, Shard<0>, Replicate>(mesh, {2048, 1024});
/// auto r = randn<float, Shard<0>, Replicate>(mesh, {2048, 1024}, seed);   // the same tensor on any mesh
/// auto w = randn<float, Shard<0>, Replicate>(mesh, r.shape(), seed + 1);
/// ```

#include <shardwise/guard/same_on_all_ranks.hpp>
#include <shardwise/kernel/random.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/tensor/redistribute.hpp>

namespace shardwise {

namespace detail {

/// What a call may bring where it is refused anyway: placements as values.
struct Anything {
  Anything(const auto&...);
};

/// Why a factory cannot make such a tensor, or `void`.
template <class T, int Rank, class MeshType, class... Placements>
using layout_problem = std::conditional_t<Communicable<T> && !std::is_const_v<T>,
                                          typename LayoutProblem<Rank, MeshType, Placements...>::type,
                                          layout_error<Reason::no_tensor_has_elements_of_this_type, Got<T>>>;

/// The same where the elements are the value itself, so that it cannot be pending.
template <class T, int Rank, class MeshType, class... Placements>
using finished_problem =
    std::conditional_t<has_partial(layout_of<Placements...>),
                       layout_error<Reason::finished_tensor_cannot_be_made_pending, Got<Placements...>>,
                       layout_problem<T, Rank, MeshType, Placements...>>;
/// The same where they are drawn from a distribution of real numbers.
template <class T, int Rank, class MeshType, class... Placements>
using drawn_problem = std::conditional_t<std::is_integral_v<T>,
                                         layout_error<Reason::operation_needs_floating_point_numbers, Got<T>>,
                                         finished_problem<T, Rank, MeshType, Placements...>>;

}  // namespace detail

/// A tensor whose elements are not yet written: for dry runs, which have none, and for what fills them at
/// once.
template <class T, class... Placements, class MeshType, int Rank,
          class Problem = detail::layout_problem<T, Rank, MeshType, Placements...>>
constexpr auto empty(const MeshType& mesh, const Shape<Rank>& shape) {
  return Tensor<T, Rank, MeshType, Placements...>(mesh, shape);
}
template <class T, class... Placements, class MeshType, int Rank,
          WellFormed Problem = detail::layout_problem<T, Rank, MeshType, Placements...>>
constexpr auto empty(const MeshType& mesh, const Index (&shape)[Rank]) {
  return empty<T, Placements...>(mesh, to_array(shape));
}
template <class T, class... Placements, class MeshType, int Rank,
          IllFormed Why = detail::layout_problem<T, Rank, MeshType, Placements...>>
Why empty(const MeshType&, const Shape<Rank>&);  // see Why
template <class T, class... Placements, class MeshType, int Rank,
          IllFormed Why = detail::layout_problem<T, Rank, MeshType, Placements...>>
Why empty(const MeshType&, const Index (&)[Rank], detail::Anything = {});  // see Why
/// All elements equal to `value`. Not pending: a constant is the same term on every rank, not a term of a
/// sum.
template <class T, class... Placements, class MeshType, int Rank,
          class Problem = detail::finished_problem<T, Rank, MeshType, Placements...>>
constexpr auto full(const MeshType& mesh, const Shape<Rank>& shape, T value) {
  auto x = empty<T, Placements...>(mesh, shape);
  if (!mesh.dry()) std::fill_n(x.writable().data, x.view().elements(), value);
  return x;
}
template <class T, class... Placements, class MeshType, int Rank,
          WellFormed Problem = detail::finished_problem<T, Rank, MeshType, Placements...>>
constexpr auto full(const MeshType& mesh, const Index (&shape)[Rank], T value) {
  return full<T, Placements...>(mesh, to_array(shape), value);
}
template <class T, class... Placements, class MeshType, int Rank,
          IllFormed Why = detail::finished_problem<T, Rank, MeshType, Placements...>>
Why full(const MeshType&, const Shape<Rank>&, T);  // see Why
template <class T, class... Placements, class MeshType, int Rank,
          IllFormed Why = detail::finished_problem<T, Rank, MeshType, Placements...>>
Why full(const MeshType&, const Index (&)[Rank], detail::Anything, detail::Anything = {});  // see Why

/// All elements zero; as `full`, not pending.
template <class T, class... Placements, class MeshType, int Rank,
          class Problem = detail::finished_problem<T, Rank, MeshType, Placements...>>
constexpr auto zeros(const MeshType& mesh, const Shape<Rank>& shape) {
  return full<T, Placements...>(mesh, shape, T(0));
}
template <class T, class... Placements, class MeshType, int Rank,
          WellFormed Problem = detail::finished_problem<T, Rank, MeshType, Placements...>>
constexpr auto zeros(const MeshType& mesh, const Index (&shape)[Rank]) {
  return full<T, Placements...>(mesh, shape, T(0));
}
template <class T, class... Placements, class MeshType, int Rank,
          IllFormed Why = detail::finished_problem<T, Rank, MeshType, Placements...>>
Why zeros(const MeshType&, const Shape<Rank>&);  // see Why
template <class T, class... Placements, class MeshType, int Rank,
          IllFormed Why = detail::finished_problem<T, Rank, MeshType, Placements...>>
Why zeros(const MeshType&, const Index (&)[Rank], detail::Anything = {});  // see Why

/// Fills a tensor that nobody else holds with normal or uniform numbers, each a function of `seed` and of the
/// element's global index alone. On a dry mesh, nothing.
template <TensorType X>
constexpr void fill_normal(const X& x, std::uint64_t seed, double mean = 0, double deviation = 1) {
  if (!x.mesh().dry()) {
    auto block = x.writable();
    detail::for_each_run(block, [&](Index local, Index global, Index count) {
      kernel::fill_normal(count, seed, static_cast<std::uint64_t>(global), mean, deviation,
                          block.data + local);
    });
  }
}
template <TensorType X>
constexpr void fill_uniform(const X& x, std::uint64_t seed, double low = 0, double high = 1) {
  if (!x.mesh().dry()) {
    auto block = x.writable();
    detail::for_each_run(block, [&](Index local, Index global, Index count) {
      kernel::fill_uniform(count, seed, static_cast<std::uint64_t>(global), low, high, block.data + local);
    });
  }
}

namespace detail {

template <class MeshType, int Rank>
constexpr void check_drawn(const MeshType& mesh, const Shape<Rank>& shape, std::uint64_t seed,
                           const char* what) {
  if (mesh.dry() || !mesh.communicator().checks()) return;
  require_same(mesh.communicator(), {{"shape", text({shape})}, {"seed", text({seed})}}, what);
}

}  // namespace detail

/// Normal numbers; the same global tensor on any mesh and in any layout. With SHARDWISE_CHECK=1 all ranks throw
/// `std::invalid_argument` if they have different shapes or seeds.
template <class T, class... Placements, class MeshType, int Rank,
          class Problem = detail::drawn_problem<T, Rank, MeshType, Placements...>>
constexpr auto randn(const MeshType& mesh, const Shape<Rank>& shape, std::uint64_t seed, double mean = 0,
                     double deviation = 1) {
  auto x = empty<T, Placements...>(mesh, shape);
  detail::check_drawn(mesh, shape, seed, "randn");
  fill_normal(x, seed, mean, deviation);
  return x;
}
template <class T, class... Placements, class MeshType, int Rank,
          WellFormed Problem = detail::drawn_problem<T, Rank, MeshType, Placements...>>
constexpr auto randn(const MeshType& mesh, const Index (&shape)[Rank], std::uint64_t seed, double mean = 0,
                     double deviation = 1) {
  return randn<T, Placements...>(mesh, to_array(shape), seed, mean, deviation);
}
template <class T, class... Placements, class MeshType, int Rank,
          IllFormed Why = detail::drawn_problem<T, Rank, MeshType, Placements...>>
Why randn(const MeshType&, const Shape<Rank>&, std::uint64_t, double = 0, double = 1);  // see Why
template <class T, class... Placements, class MeshType, int Rank,
          IllFormed Why = detail::drawn_problem<T, Rank, MeshType, Placements...>>
Why randn(const MeshType&, const Index (&)[Rank], detail::Anything, detail::Anything = {},
          detail::Anything = {});  // see Why

/// Uniform numbers in [low, high); the same global tensor on any mesh and in any layout. Seeds as for `randn`.
template <class T, class... Placements, class MeshType, int Rank,
          class Problem = detail::drawn_problem<T, Rank, MeshType, Placements...>>
constexpr auto uniform(const MeshType& mesh, const Shape<Rank>& shape, std::uint64_t seed, double low = 0,
                       double high = 1) {
  auto x = empty<T, Placements...>(mesh, shape);
  detail::check_drawn(mesh, shape, seed, "uniform");
  fill_uniform(x, seed, low, high);
  return x;
}
template <class T, class... Placements, class MeshType, int Rank,
          WellFormed Problem = detail::drawn_problem<T, Rank, MeshType, Placements...>>
constexpr auto uniform(const MeshType& mesh, const Index (&shape)[Rank], std::uint64_t seed, double low = 0,
                       double high = 1) {
  return uniform<T, Placements...>(mesh, to_array(shape), seed, low, high);
}
template <class T, class... Placements, class MeshType, int Rank,
          IllFormed Why = detail::drawn_problem<T, Rank, MeshType, Placements...>>
Why uniform(const MeshType&, const Shape<Rank>&, std::uint64_t, double = 0, double = 1);  // see Why
template <class T, class... Placements, class MeshType, int Rank,
          IllFormed Why = detail::drawn_problem<T, Rank, MeshType, Placements...>>
Why uniform(const MeshType&, const Index (&)[Rank], detail::Anything, detail::Anything = {},
            detail::Anything = {});  // see Why

}  // namespace shardwise
