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
/// A tensor is a cheap handle to a block that its copies share. Writing to one never changes another: see `writable`.

#include <Eigen/Core>

#include <shardwise/tensor/tensor_refused.hpp>

namespace shardwise {

template <>
inline constexpr DataType data_type<Eigen::bfloat16> = DataType::bf16;

/// The Eigen type of a matrix in the order of a tensor's block.
template <class T>
using RowMajorMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// A tensor of `Rank` dimensions, with a placement for each axis of the mesh. A type with an illegal layout can neither
/// be constructed nor used in operations.
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

  constexpr explicit operator bool() const { return static_cast<bool>(buffer_); }

  constexpr const MeshType& mesh() const { return mesh_; }
  /// Global extents.
  constexpr const Shape<Rank>& shape() const { return shape_; }
  /// The box of global indices that this rank holds.
  constexpr const Box<Rank>& box() const { return box_; }
  constexpr const Shape<Rank>& local_shape() const { return box_.size; }

  /// This rank's elements, row-major. Throws `std::logic_error` if the tensor is empty or on a dry mesh. A pending
  /// reduction has `local_term()` and `view()`.
  const T* data() const requires(!has_partial(layout)) { return elements(); }

  /// This rank's block as an Eigen map: a column vector for rank 1, else a row-major matrix whose columns are the
  /// last dimension. For a pending reduction use `local_term`.
  auto local() const& requires(!has_partial(layout)) { return mapped(); }
  /// For a temporary, a copy, because its block is freed with it.
  auto local() const&& requires(!has_partial(layout)) {
    return typename decltype(mapped())::PlainObject(mapped());
  }
  /// The same for a pending reduction: this rank's term.
  auto local_term() const requires(has_partial(layout)) { return mapped(); }

  /// This rank's block for kernels, without data on a dry mesh.
  constexpr View<const T, Rank> view() const { return {data_or_null(), box_.size, box_.begin, shape_}; }

  /// This rank's block, to write to. If another tensor or a tape shares it, this tensor gets a copy of its own first.
  /// Call it again after the tensor was copied or used: an older view may be of a block that is shared now.
  constexpr View<T, Rank> writable() & {
    if (!unique()) detail::make_own(buffer_, mesh_.recorder());
    return {const_cast<T*>(data_or_null()), box_.size, box_.begin, shape_};
  }

  /// The memory of this rank's block, and whether this handle is its only one.
  constexpr const Buffer& buffer() const { return buffer_; }
  constexpr bool unique() const { return buffer_.unique(); }

  // Refused: a wrong number of extents, an illegal layout, and to read a pending sum as if it were the sum.
  template <int N>
    requires(N != Rank)
  Tensor(const MeshType&, const Index (&)[N], MemoryUse = MemoryUse::activation)
  = delete;
  template <IllFormed Why = Problem>
  Tensor() = delete;  // see Why
  template <IllFormed Why = Problem>
  Tensor(const MeshType&, const Shape<Rank>&, MemoryUse = MemoryUse::activation) = delete;  // see Why
  template <class X = Tensor, IllFormed Why = detail::term_problem<X>>
  static Why local();  // see Why
  template <class X = Tensor, IllFormed Why = detail::term_problem<X>>
  static Why data();  // see Why

 private:
  const T* elements() const {
    const T* first = data_or_null();
    if (!first) detail::no_memory();
    return first;
  }
  auto mapped() const {
    if constexpr (Rank == 1) {
      return detail::ReadOnlyBlock<Eigen::Matrix<T, Eigen::Dynamic, 1>>(elements(), box_.size[0]);
    } else {
      View<const T, Rank> block = view();
      return detail::ReadOnlyBlock<RowMajorMatrix<T>>(elements(), block.rows(), block.columns());
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

/// The block of `x`, to write to, even if it is shared.
template <TensorType X>
constexpr View<typename X::Element, X::rank> view_to_write(const X& x) {
  const auto block = x.view();
  return {const_cast<typename X::Element*>(block.data), block.size, block.begin, block.shape};
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
using with_layout = tensor_with<typename X::Element, X::rank, typename X::MeshOf, L>;

/// `X`, `Replicate` on every axis.
template <TensorType X>
using whole_of = with_layout<X, packed(everywhere(X::MeshOf::axes, replicate))>;

/// The type of the gradient of an `X`.
template <TensorType X>
using cotangent_of = with_layout<X, packed(cotangent(X::layout))>;

}  // namespace shardwise
