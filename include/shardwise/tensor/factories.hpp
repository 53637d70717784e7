// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Tensors from constants and from random numbers. A shape is written {2048, 1024}, {} for a scalar, or is that of
/// another tensor.
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

/// The `LayoutError` with the reason why a factory cannot make such a tensor, or `void`.
template <class T, int Rank, class MeshType, class... Placements>
using layout_problem = std::conditional_t<Communicable<T> && !std::is_const_v<T>,
                                          typename LayoutProblem<Rank, MeshType, Placements...>::type,
                                          layout_error<Reason::unsupported_element_type, Got<T>>>;

/// The same for factories whose elements are the tensor's value, so that it cannot be pending.
template <class T, int Rank, class MeshType, class... Placements>
using finished_problem =
    std::conditional_t<has_partial(layout_of<Placements...>),
                       layout_error<Reason::finished_tensor_cannot_be_made_pending, Got<Placements...>>,
                       layout_problem<T, Rank, MeshType, Placements...>>;
/// The same for factories that draw elements from a distribution of real numbers.
template <class T, int Rank, class MeshType, class... Placements>
using drawn_problem = std::conditional_t<std::is_integral_v<T>,
                                         layout_error<Reason::operation_needs_floating_point_numbers, Got<T>>,
                                         finished_problem<T, Rank, MeshType, Placements...>>;

/// A function of a mesh, a shape and `more`, which makes a tensor; `Fill::write(tensor, more...)` writes its elements,
/// and `Fill::argument` says which `more` a call needs.
template <template <class, int, class, class...> class ProblemOf, class Fill, class T, class... Placements>
struct Factory {
  template <class MeshType, int Rank>
  using Problem = ProblemOf<T, Rank, MeshType, Placements...>;

  template <class MeshType, int Rank, class... More, WellFormed Fine = Problem<MeshType, Rank>>
    requires requires(Tensor<T, Rank, MeshType, Placements...>& x, More... more) { Fill::write(x, more...); }
  constexpr auto operator()(const MeshType& mesh, const Shape<Rank>& shape, More... more) const {
    Tensor<T, Rank, MeshType, Placements...> x(mesh, shape);
    Fill::write(x, more...);
    return x;
  }
  template <class MeshType, int Rank, class... More, WellFormed Fine = Problem<MeshType, Rank>>
  constexpr auto operator()(const MeshType& mesh, const Index (&shape)[Rank], More... more) const
      -> decltype((*this)(mesh, to_array(shape), more...)) {
    return (*this)(mesh, to_array(shape), more...);
  }
  template <class MeshType, class... More>
  constexpr auto operator()(const MeshType& mesh, const Shape<0>& scalar, More... more) const
      -> decltype(this->template operator()<MeshType, 0>(mesh, scalar, more...)) {
    return this->template operator()<MeshType, 0>(mesh, scalar, more...);
  }
  // Calls that lack a value, a seed, or the braces of the sizes.
  template <class MeshType, int Rank, WellFormed Fine = Problem<MeshType, Rank>,
            class Why = WrittenOtherwise<Fill::argument>>
    requires(Fill::argument != Hint::none)
  Why operator()(const MeshType&, const Index (&)[Rank]) const;
  template <class MeshType, std::integral... Sizes,
            class Why = WrittenOtherwise<Hint::write_the_sizes_in_braces>>
    requires(sizeof...(Sizes) > 0)
  Why operator()(const MeshType&, const Sizes&...) const;

  template <class MeshType, int Rank, IllFormed Why = Problem<MeshType, Rank>>
  Why operator()(const MeshType&, const Shape<Rank>&, const auto&...) const;  // see Why
  template <class MeshType, IllFormed Why = Problem<MeshType, 0>>
  Why operator()(const MeshType&, const Shape<0>&, const auto&...) const;  // see Why
  template <class MeshType, int Rank, IllFormed Why = Problem<MeshType, Rank>>
  Why operator()(const MeshType&, const Index (&)[Rank], const auto&...) const;  // see Why
};

}  // namespace detail

/// Fills a tensor with normal or uniform numbers, each a function of `seed` and of the element's global index alone.
/// On a dry mesh it does nothing.
template <TensorType X>
constexpr void fill_normal(X& x, std::uint64_t seed, double mean = 0, double deviation = 1) {
  if (!x.mesh().dry()) {
    auto block = x.writable();
    detail::for_each_run(block, [&](Index local, Index global, Index count) {
      kernel::fill_normal(count, seed, static_cast<std::uint64_t>(global), mean, deviation,
                          block.data + local);
    });
  }
}
template <TensorType X>
constexpr void fill_uniform(X& x, std::uint64_t seed, double low = 0, double high = 1) {
  if (!x.mesh().dry()) {
    auto block = x.writable();
    detail::for_each_run(block, [&](Index local, Index global, Index count) {
      kernel::fill_uniform(count, seed, static_cast<std::uint64_t>(global), low, high, block.data + local);
    });
  }
}

namespace detail {

struct Unwritten {
  static constexpr Hint argument = Hint::none;
  static constexpr void write(const auto&) {}
};
struct Constant {
  static constexpr Hint argument = Hint::pass_the_value_after_the_shape;
  template <class X, std::convertible_to<typename X::Element> Value>
  static constexpr void write(X& x, const Value& value) {
    if (!x.mesh().dry()) {
      std::fill_n(x.writable().data, x.view().elements(), static_cast<typename X::Element>(value));
    }
  }
};
struct Zero {
  static constexpr Hint argument = Hint::none;
  static constexpr void write(auto& x) { Constant::write(x, 0); }
};

struct Normal {
  static constexpr Hint argument = Hint::pass_a_seed_as_the_next_argument;
  static constexpr void write(auto& x, std::integral auto seed, double mean = 0, double deviation = 1) {
    check_same_on(x.mesh(), "randn", "shape", x.shape(), "seed", static_cast<std::uint64_t>(seed));
    fill_normal(x, static_cast<std::uint64_t>(seed), mean, deviation);
  }
};
struct Uniform {
  static constexpr Hint argument = Hint::pass_a_seed_as_the_next_argument;
  static constexpr void write(auto& x, std::integral auto seed, double low = 0, double high = 1) {
    check_same_on(x.mesh(), "uniform", "shape", x.shape(), "seed", static_cast<std::uint64_t>(seed));
    fill_uniform(x, static_cast<std::uint64_t>(seed), low, high);
  }
};

}  // namespace detail

/// `empty<T, Placements...>(mesh, shape)`: a tensor whose elements are not yet written, for dry runs, which have none,
/// and for callers that fill it at once.
template <class T, class... Placements>
inline constexpr detail::Factory<detail::layout_problem, detail::Unwritten, T, Placements...> empty{};

/// `full<T, Placements...>(mesh, shape, value)`: all elements are equal to `value`. The tensor cannot be pending: a
/// constant is the same term on every rank, not a term of a sum.
template <class T, class... Placements>
inline constexpr detail::Factory<detail::finished_problem, detail::Constant, T, Placements...> full{};

/// `zeros<T, Placements...>(mesh, shape)`: all elements are zero; as `full`, not pending.
template <class T, class... Placements>
inline constexpr detail::Factory<detail::finished_problem, detail::Zero, T, Placements...> zeros{};

/// `randn<T, Placements...>(mesh, shape, seed, mean = 0, deviation = 1)`: normal numbers, the same global tensor on any
/// mesh and in any layout. With SHARDWISE_CHECK=1 all ranks throw `std::invalid_argument` if they have different shapes
/// or seeds.
template <class T, class... Placements>
inline constexpr detail::Factory<detail::drawn_problem, detail::Normal, T, Placements...> randn{};

/// `uniform<T, Placements...>(mesh, shape, seed, low = 0, high = 1)`: uniform numbers in [low, high); the same global
/// tensor on any mesh and in any layout. Seeds as for `randn`.
template <class T, class... Placements>
inline constexpr detail::Factory<detail::drawn_problem, detail::Uniform, T, Placements...> uniform{};

}  // namespace shardwise
