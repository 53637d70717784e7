// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Between Eigen and tensors: from a matrix that every rank holds, from each rank's own block, and back.
///
/// ```
/// auto d = distribute<Shard<0>, Replicate>(mesh, eigen_matrix);   // every rank takes its block
/// auto v = distribute<Shard<0>, Replicate>(mesh, {3, 4}, values); // of 12 values, row-major, in a contiguous range
/// auto l = from_local<Shard<0>, Replicate>(mesh, eigen_block);    // the blocks make the tensor
/// auto e = full_tensor(d);                                        // an Eigen matrix on every rank
/// ```

#include <shardwise/guard/same_on_all_ranks.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/tensor/factories.hpp>

namespace shardwise {

namespace detail {

/// The rank of a tensor made from an Eigen matrix or vector.
template <class Derived>
inline constexpr int eigen_rank = Derived::IsVectorAtCompileTime ? 1 : 2;

template <class Derived>
Shape<eigen_rank<Derived>> eigen_shape(const Eigen::MatrixBase<Derived>& matrix) {
  if constexpr (eigen_rank<Derived> == 1) {
    return {matrix.size()};
  } else {
    return {matrix.rows(), matrix.cols()};
  }
}

/// The `LayoutError` if values that all ranks hold cannot be cut into such a tensor, or `void`.
template <class T, int Rank, class MeshType, class... Placements>
using distributed_problem = std::conditional_t<
    ((std::is_same_v<Placements, Partial<Max>> || std::is_same_v<Placements, Partial<Min>>) || ...),
    layout_error<Reason::nothing_can_become_a_pending_maximum_or_minimum, Got<Placements...>>,
    layout_problem<T, Rank, MeshType, Placements...>>;

/// A function of a mesh, a shape and values, or of a mesh and an Eigen matrix. `Make` makes the tensor.
template <template <class, int, class, class...> class ProblemOf, class Make, class... Placements>
struct FromValues {
  template <class MeshType, int Rank, class Values>
  using Problem = ProblemOf<std::ranges::range_value_t<Values>, Rank, MeshType, Placements...>;
  template <class MeshType, class Matrix>
  using MatrixProblem = ProblemOf<typename Matrix::Scalar, eigen_rank<Matrix>, MeshType, Placements...>;

  template <class MeshType, int Rank, std::ranges::contiguous_range Values,
            WellFormed Fine = Problem<MeshType, Rank, Values>>
  auto operator()(const MeshType& mesh, const Shape<Rank>& shape, const Values& values) const {
    using T = std::ranges::range_value_t<Values>;
    return Make::template make<Placements...>(mesh, shape, std::span<const T>(values));
  }
  template <class MeshType, int Rank, std::ranges::contiguous_range Values,
            WellFormed Fine = Problem<MeshType, Rank, Values>>
  auto operator()(const MeshType& mesh, const Index (&shape)[Rank], const Values& values) const {
    return (*this)(mesh, to_array(shape), values);
  }
  template <class MeshType, class Derived, WellFormed Fine = MatrixProblem<MeshType, Derived>>
  auto operator()(const MeshType& mesh, const Eigen::MatrixBase<Derived>& matrix) const {
    const auto shape = eigen_shape(matrix);
    if (Make::matrices_are_equal && !mesh.dry()) {
      require_same(mesh.communicator(), {{"", text({shape})}}, Make::name);
    }
    const RowMajorMatrix<typename Derived::Scalar> rows = matrix;
    return (*this)(mesh, shape, std::span(rows.data(), static_cast<std::size_t>(rows.size())));
  }

  template <class MeshType, int Rank, std::ranges::range Values,
            IllFormed Why = Problem<MeshType, Rank, Values>>
  Why operator()(const MeshType&, const Shape<Rank>&, const Values&) const;  // see Why
  template <class MeshType, int Rank, std::ranges::range Values,
            IllFormed Why = Problem<MeshType, Rank, Values>>
  Why operator()(const MeshType&, const Index (&)[Rank], const Values&) const;  // see Why
  template <class MeshType, class Derived, IllFormed Why = MatrixProblem<MeshType, Derived>>
  Why operator()(const MeshType&, const Eigen::MatrixBase<Derived>&) const;  // see Why
  template <class MeshType, int Rank, class T,
            class Why = WrittenOtherwise<Hint::pass_std_span_of_the_pointer_and_the_number>>
  Why operator()(const MeshType&, const Index (&)[Rank], const T*, const auto&...) const;
  template <class MeshType, class T,
            class Why = WrittenOtherwise<Hint::pass_std_span_of_the_pointer_and_the_number>>
  Why operator()(const MeshType&, const T*, const auto&...) const;
  template <class MeshType, std::ranges::range Values,
            IllFormed Why = WrittenOtherwise<Hint::pass_the_shape_before_the_values>>
    requires(
        !requires { typename Values::Scalar; } && !requires(Values shape) { shape.values; })
  Why operator()(const MeshType&, const Values&, const auto&...) const;  // see Why
};

struct Distribute {
  static constexpr const char* name = "distribute";
  static constexpr bool matrices_are_equal = true;

  template <class... Placements, class MeshType, int Rank, class T>
  static auto make(const MeshType& mesh, const Shape<Rank>& shape, std::span<const T> values) {
    auto x = empty<T, Placements...>(mesh, shape);
    if (static_cast<Index>(values.size()) != elements(shape)) {
      fail({name, ": ", values.size(), " values do not fill ", shape});
    }
    if (mesh.dry()) return x;
    if (mesh.communicator().checks()) {
      Fnv1a held;
      held.add({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
      check_same_on(mesh, name, "", shape, "values of fingerprint", held.value);
    }
    if (adds_zeros(layout_of<Placements...>, mesh.coordinates())) {
      std::fill_n(x.writable().data, x.view().elements(), T(0));
    } else {
      const AnyBox own = AnyTensor(x).box(), whole{{}, padded(shape)};
      copy_part(sizeof(T), own, values.data(), whole, x.writable().data, own);
    }
    return x;
  }
};

struct FromLocal {
  static constexpr const char* name = "from_local";
  static constexpr bool matrices_are_equal = false;

  template <class... Placements, class MeshType, int Rank, class T>
  static auto make(const MeshType& mesh, const Shape<Rank>& local_shape, std::span<const T> values) {
    constexpr Layout layout = layout_of<Placements...>;
    constexpr AxisSet every_axis = (1u << MeshType::axes) - 1;
    const auto ranks = static_cast<std::size_t>(mesh.size());
    std::vector<Index> mine(local_shape.begin(), local_shape.end());
    mine.push_back(static_cast<Index>(values.size()));
    const AxisSet alike =
        axes_where(layout.axes, [&](int axis) { return layout[axis].is_full() && mesh.sizes()[axis] > 1; });
    const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size_bytes());
    Fnv1a held;
    if (alike != 0) held.add(bytes);
    mine.push_back(std::bit_cast<Index>(held.value));
    const std::size_t numbers = mine.size();
    const std::vector<Index> all = mesh.communicator().all_gather(mine);
    auto block_of = [&](std::size_t rank) {
      Shape<Rank> size{};
      for (std::size_t dim = 0; dim < Rank; ++dim) size[dim] = all[rank * numbers + dim];
      return size;
    };
    Shape<Rank> shape = block_of(0);
    for (int dim = 0; dim < Rank; ++dim) {
      const AxisSet cutting = layout.axes_sharding(dim);
      shape[dim] = 0;
      for (int m = 0; m < group_size(mesh.sizes(), layout.axes, cutting); ++m) {
        MeshSizes member = group_member(mesh.sizes(), {}, layout.axes, cutting, m);
        int rank = group_rank(mesh.sizes(), member, layout.axes, every_axis);
        shape[dim] += block_of(static_cast<std::size_t>(rank))[dim];
      }
    }
    for (std::size_t r = 0; r < ranks; ++r) {
      MeshSizes at = group_member(mesh.sizes(), {}, layout.axes, every_axis, static_cast<int>(r));
      auto expected = local_box(shape, layout, mesh.sizes(), at).size;
      if (block_of(r) != expected || elements(expected) != all[r * numbers + Rank]) {
        fail({name, ": the blocks add up to ", shape, ", of which rank ", r, " should hold ", expected,
              ", but it brings ", block_of(r), " with ", all[r * numbers + Rank], " values"});
      }
      MeshSizes first = at;
      for (int axis = 0; axis < layout.axes; ++axis) first[axis] = alike >> axis & 1u ? 0 : at[axis];
      const int other = group_rank(mesh.sizes(), first, layout.axes, every_axis);
      if (all[r * numbers + Rank + 1] != all[static_cast<std::size_t>(other) * numbers + Rank + 1])
        fail({name, ": rank ", r, " brings other values than rank ", other, ", which should hold the same"});
    }
    auto x = empty<T, Placements...>(mesh, shape);
    std::copy(values.begin(), values.end(), x.writable().data);
    return x;
  }
};

}  // namespace detail

/// `distribute<Placements...>(mesh, shape, values)`: every rank holds all elements of a tensor, the same ones,
/// row-major, and takes its block; nothing is sent. On an axis where the tensor becomes `Partial<Sum>`, the first rank
/// takes the value and the others take zero. With SHARDWISE_CHECK=1 the ranks compare their values, and all throw
/// `std::invalid_argument` if these differ.
///
/// `distribute<Placements...>(mesh, matrix)`: the same for an Eigen matrix (rank 2) or vector (rank 1). Collective:
/// throws `std::invalid_argument`, on every rank, unless all bring the same extents; ranks that hold different blocks
/// call `from_local`.
template <class... Placements>
inline constexpr detail::FromValues<detail::distributed_problem, detail::Distribute, Placements...>
    distribute{};

/// `from_local<Placements...>(mesh, local_shape, values)` or `from_local<Placements...>(mesh, matrix)`: every rank
/// brings its own block, and the blocks make the tensor; where it is `Partial`, each brings a term. Collective: the
/// ranks compare their shapes, and a fingerprint of the blocks that several ranks share; where the blocks do not fit
/// together, every rank throws `std::invalid_argument` with the first rank at fault.
template <class... Placements>
inline constexpr detail::FromValues<detail::layout_problem, detail::FromLocal, Placements...> from_local{};

/// The whole tensor on every rank, as an Eigen vector (rank 1) or a row-major matrix whose columns are the
/// last dimension. Collective; finishes pending reductions.
template <TensorType X>
auto full_tensor(const X& x) {
  const auto whole = redistribute_to<whole_of<X>>(x);
  if constexpr (X::rank == 1) {
    return Eigen::Matrix<typename X::Element, Eigen::Dynamic, 1>(whole.local());
  } else {
    return RowMajorMatrix<typename X::Element>(whole.local());
  }
}

template <class X, IllFormed Why = WrittenOtherwise<Hint::use_its_value>>
  requires requires(const X& x) { requires TensorType<decltype(x.value())>; }
Why full_tensor(const X&);  // see Why

namespace detail {

/// The value's type, or the `LayoutError` with the reason why `item` cannot return it.
template <class X>
struct Item;
template <TensorType X>
struct Item<X> {
  static constexpr auto type_of() {
    if constexpr (IllFormed<typename X::Problem>) {
      return TypeIs<typename X::Problem>{};
    } else if constexpr (X::rank != 0) {
      return TypeIs<LayoutError<Reason::operands_do_not_fit_in_rank, Got<X>,
                                Cure<Hint::reduce_it_by_sum_or_mean_first>>>{};
    } else if constexpr (has_partial(X::layout)) {
      return Refused<Reason::value_is_pending_on_every_rank, Got<X>>{};
    } else {
      return TypeIs<typename X::Element>{};
    }
  }
  using type = typename decltype(type_of())::type;
};
/// An operand that is only a type.
template <class X>
  requires requires { typename X::NoValue; }
struct Item<X> : TypeIs<typename X::NoValue> {};
template <class X>
  requires requires(const X& x) { requires TensorType<decltype(x.value())>; }
struct Item<X> : Item<std::remove_cvref_t<decltype(std::declval<const X&>().value())>> {};

}  // namespace detail

/// The value of a scalar that every rank holds, also of one on a tape. A pending one does not compile: redistribute it
/// first.
template <class X, class Result = typename detail::Item<X>::type>
Result item(const X& x) {
  if constexpr (TensorType<X>) {
    return *x.data();
  } else {
    return *x.value().data();
  }
}
template <class X, IllFormed Why = typename detail::Item<X>::type>
Why item(const X&);  // see Why

}  // namespace shardwise
