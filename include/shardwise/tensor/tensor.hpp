// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A tensor distributed over a mesh; its layout is part of its type.
///
/// ```
/// Tensor<float, 2, Mesh<dp, tp>, Shard<0>, Replicate> x;   // rows over dp, the same on every rank of tp
/// x.shape();        // global extents
/// x.local_shape();  // extents of this rank's block
/// x.local();        // an Eigen map of it
/// ```
/// A tensor is a cheap handle to a shared, immutable block.

#include <Eigen/Core>

#include <shardwise/base/text.hpp>
#include <shardwise/layout/block.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/layout/other_names.hpp>
#include <shardwise/tensor/buffer.hpp>

namespace shardwise {

template <>
inline constexpr DataType data_type<Eigen::bfloat16> = DataType::bf16;

/// The Eigen type of a matrix in the order of a tensor's block.
template <class T>
using RowMajorMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// One rank's block as a kernel sees it: its elements and extents, where it begins in the tensor, and the tensor's
/// extents. `T` is const for inputs of kernels.
template <class T, int Rank>
struct View {
  T* data = nullptr;
  Shape<Rank> size{};
  Shape<Rank> begin{};
  Shape<Rank> shape{};

  /// Of the block: its elements and bytes.
  constexpr Index elements() const { return shardwise::elements(size); }
  constexpr Index bytes() const { return elements() * static_cast<Index>(sizeof(T)); }
  /// Product of the extents of dimensions [first, last).
  constexpr Index extent(int first, int last) const {
    Index product = 1;
    for (int dim = first; dim < last; ++dim) product *= size[dim];
    return product;
  }
  /// The same block as a matrix of `rows` x (the last dimension).
  constexpr Index rows() const { return extent(0, Rank - 1); }
  constexpr Index columns() const { return extent(Rank > 0 ? Rank - 1 : 0, Rank); }

  constexpr operator View<const T, Rank>() const requires(!std::is_const_v<T>) {
    return {data, size, begin, shape};
  }
};

namespace detail {

/// Throws because a tensor cannot have these extents.
[[noreturn, gnu::cold]] void fail_extents(std::span<const Index> shape, const char* of);

template <int Rank>
constexpr void check_extents(const Shape<Rank>& shape, const char* of = "Tensor") {
  double count = 1;
  for (int dim = 0; dim < Rank; ++dim) {
    const Index extent = shape.values[dim];
    if (extent < 0) fail_extents({shape.values, Rank}, of);
    if (extent > 0) count *= static_cast<double>(extent);  // without 0: other products are computed
  }
  if (count > 0x1p58) fail_extents({shape.values, Rank}, of);
}

/// `void` if a tensor can have this layout on the mesh, else a `LayoutError`.
template <int Rank, class MeshType, class... Placements>
struct LayoutProblem {
  static constexpr auto problem() {
    constexpr Layout layout = layout_of<Placements...>;
    if constexpr (sizeof...(Placements) == 0 && MeshType::axes > 0) {
      return TypeIs<
          LayoutError<Reason::one_placement_per_mesh_axis_is_needed, Expected<typename MeshType::AxesOf>,
                      Cure<Hint::write_placements_in_angle_brackets>>>{};
    } else if constexpr (sizeof...(Placements) != MeshType::axes) {
      return Refused<Reason::one_placement_per_mesh_axis_is_needed, Expected<typename MeshType::AxesOf>,
                     Got<Placements...>>{};
    } else if constexpr (axis_without_dimension(layout, Rank) >= 0) {
      constexpr int axis = axis_without_dimension(layout, Rank);
      return Refused<Reason::tensor_has_no_such_dimension, On<typename MeshType::AxesOf::template at<axis>>,
                     Expected<placement_type<Rank - 1>>, Got<placement_type<layout[axis].code>>>{};
    } else if constexpr (!well_formed(layout, Rank)) {
      return Refused<Reason::pending_reductions_of_different_kinds, Got<Placements...>>{};
    } else {
      return TypeIs<void>{};
    }
  }
  using type = typename decltype(problem())::type;
};
template <int Rank, class MeshType, class... Placements>
  requires(Communicable<Placements> || ...)
struct LayoutProblem<Rank, MeshType, Placements...>
    : TypeIs<WrittenOtherwise<Hint::remove_the_element_type>> {};

/// The error for a tensor whose value is still pending, or `void`.
template <class X>
using term_problem = std::conditional_t<has_partial(X::layout),
                                        layout_error<Reason::value_is_pending_on_every_rank, Got<X>>, void>;

/// A block as an Eigen map. Read-only, because handles share it.
template <class Matrix>
struct ReadOnlyBlock : Eigen::Map<const Matrix> {
  using Eigen::Map<const Matrix>::Map;
  using Why = WrittenOtherwise<Hint::it_is_read_only_so_make_another_with_from_local>;
  Why operator=(const auto&) const;  // NOLINT(misc-unconventional-assign-operator)
  Why operator+=(const auto&) const;
  Why operator-=(const auto&) const;
  Why operator*=(const auto&) const;
  Why operator/=(const auto&) const;
  Why setZero(const auto&...) const;      // NOLINT(readability-identifier-naming)
  Why setConstant(const auto&...) const;  // NOLINT(readability-identifier-naming)
  Why fill(const auto&) const;
  Why setOnes(const auto&...) const;    // NOLINT(readability-identifier-naming)
  Why setRandom(const auto&...) const;  // NOLINT(readability-identifier-naming)
};

}  // namespace detail

/// A type with an illegal layout can neither be constructed nor used in operations.
template <Communicable T, int Rank, class MeshType, PlacementTag... Placements>
class Tensor : public detail::OtherNames {
 public:
  static_assert(Rank >= 0 && Rank <= max_rank, "a tensor has at most 8 dimensions");
  static_assert(numbers_in(data_type_of<T>()) == 1 || !has_partial(layout_of<Placements...>),
                "quantised blocks have no pending sum");

  using Problem = typename detail::LayoutProblem<Rank, MeshType, Placements...>::type;
  using Element = T;
  using MeshOf = MeshType;
  static constexpr int rank = Rank;
  static constexpr Layout layout = layout_of<Placements...>;
  static constexpr bool is_float = is_floating(data_type_of<T>());

  constexpr Tensor() requires WellFormed<Problem>
  = default;

  /// A tensor of global extents `shape` whose block is uninitialised. Throws `std::invalid_argument` for a negative
  /// extent and for more than 2^58 elements.
  constexpr Tensor(const MeshType& mesh, const Shape<Rank>& shape,
                   MemoryUse use = MemoryUse::activation) requires WellFormed<Problem>
      : mesh_(mesh), shape_(shape), box_(local_box(shape, layout, mesh.sizes(), mesh.coordinates())) {
    detail::check_extents(shape);
    buffer_ = allocate_buffer(mesh, box_.elements() * static_cast<Index>(sizeof(T)), use);
  }

  /// The same bytes under another type or shape; for the library, unchecked.
  constexpr Tensor(const MeshType& mesh, const Shape<Rank>& shape, Buffer buffer)
      : mesh_(mesh),
        shape_(shape),
        box_(local_box(shape, layout, mesh.sizes(), mesh.coordinates())),
        buffer_(std::move(buffer)) {}

  /// Rejects a wrong number of extents.
  template <int N>
    requires(N != Rank)
  Tensor(const MeshType&, const Index (&)[N], MemoryUse = MemoryUse::activation)
  = delete;

  template <IllFormed Why = Problem>
  Tensor() = delete;  // see Why
  template <IllFormed Why = Problem>
  Tensor(const MeshType&, const Shape<Rank>&, MemoryUse = MemoryUse::activation) = delete;  // see Why

  constexpr explicit operator bool() const { return static_cast<bool>(buffer_); }

  constexpr const MeshType& mesh() const { return mesh_; }
  /// Global extents.
  constexpr const Shape<Rank>& shape() const { return shape_; }
  /// The box of global indices that this rank holds.
  constexpr const Box<Rank>& box() const { return box_; }
  constexpr const Shape<Rank>& local_shape() const { return box_.size; }

  /// This rank's elements, row-major. Throws `std::logic_error` if the tensor is empty or on a dry mesh.
  const T* data() const {
    const T* elements = data_or_null();
    if (!elements) detail::no_memory();
    return elements;
  }

  /// This rank's block as an Eigen map: a column vector for rank 1, else a row-major matrix whose columns are the
  /// last dimension. For a pending reduction use `local_term`.
  auto local() const& requires(!has_partial(layout)) { return mapped(); }
  /// For a temporary, a copy, because its block is freed with it.
  auto local() const&& requires(!has_partial(layout)) {
    return typename decltype(mapped())::PlainObject(mapped());
  }
  template <class X = Tensor, IllFormed Why = detail::term_problem<X>>
  Why local() const&;  // see Why
  /// The same for a pending reduction: this rank's term.
  auto local_term() const requires(has_partial(layout)) { return mapped(); }

  /// This rank's block for kernels, without data on a dry mesh.
  constexpr View<const T, Rank> view() const { return {data_or_null(), box_.size, box_.begin, shape_}; }

  /// For the code that created the tensor and is its only owner: factories, kernels, optimizers.
  constexpr View<T, Rank> writable() const {
    return {const_cast<T*>(data_or_null()), box_.size, box_.begin, shape_};
  }

  /// The memory of this rank's block, and whether this handle is its only one.
  constexpr const Buffer& buffer() const { return buffer_; }
  constexpr bool unique() const { return buffer_.unique(); }

 private:
  auto mapped() const {
    if constexpr (Rank == 1) {
      return detail::ReadOnlyBlock<Eigen::Matrix<T, Eigen::Dynamic, 1>>(data(), box_.size[0]);
    } else {
      View<const T, Rank> block = view();
      return detail::ReadOnlyBlock<RowMajorMatrix<T>>(data(), block.rows(), block.columns());
    }
  }
  constexpr const T* data_or_null() const {
    if (__builtin_is_constant_evaluated()) return nullptr;
    if (!buffer_) detail::no_block();
    return static_cast<const T*>(buffer_->data);
  }

  MeshType mesh_{};
  Shape<Rank> shape_{};
  Box<Rank> box_{};
  Buffer buffer_;
};

/// Whether `X` is a `Tensor`.
template <class X>
inline constexpr bool is_tensor = false;
template <class T, int Rank, class MeshType, class... Placements>
inline constexpr bool is_tensor<Tensor<T, Rank, MeshType, Placements...>> = true;

/// A `Tensor`, or a reference to one.
template <class X>
concept TensorType = is_tensor<std::remove_cvref_t<X>>;

namespace detail {

/// `x`; throws `std::logic_error` if it is empty.
template <TensorType X>
constexpr const X& with_block(const X& x) {
  if (!x) no_block();
  return x;
}

/// `X`, or a `LayoutError` if there is no such tensor.
template <TensorType X>
using tensor_or_problem = std::conditional_t<WellFormed<typename X::Problem>, X, typename X::Problem>;

template <class T, int Rank, class MeshType, PackedLayout L,
          class Axes = std::make_integer_sequence<int, MeshType::axes>>
struct TensorWith;
template <class T, int Rank, class MeshType, PackedLayout L, int... Axes>
struct TensorWith<T, Rank, MeshType, L, std::integer_sequence<int, Axes...>>
    : TypeIs<Tensor<T, Rank, MeshType, placement_type<unpacked(L, Axes).code>...>> {};

}  // namespace detail

/// The tensor type whose packed layout is `L`.
template <class T, int Rank, class MeshType, PackedLayout L>
using tensor_with = typename detail::TensorWith<T, Rank, MeshType, L>::type;

/// `X` in another layout.
template <TensorType X, PackedLayout L>
using relaid = tensor_with<typename X::Element, X::rank, typename X::MeshOf, L>;

/// `X`, `Replicate` on every axis.
template <TensorType X>
using whole_of = relaid<X, packed(everywhere(X::MeshOf::axes, replicate))>;

/// The type of the gradient of an `X`.
template <TensorType X>
using cotangent_of = relaid<X, packed(cotangent(X::layout))>;

#ifdef SHARDWISE_BODIES
namespace detail {

SHARDWISE_INLINE void fail_extents(std::span<const Index> shape, const char* of) {
  const bool negative = std::any_of(shape.begin(), shape.end(), [](Index extent) { return extent < 0; });
  if (negative) fail({of, ": an extent is negative in ", shape});
  fail({of, ": ", shape, " are more than 2^58 elements"});
}

}  // namespace detail
#endif

}  // namespace shardwise
