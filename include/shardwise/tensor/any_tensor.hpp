// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A tensor whose element type, rank, mesh and layout are values: what moves and keeps blocks works on it, and is
/// compiled once for all.
///
/// ```
/// AnyTensor a(x);                    // the same block
/// auto same = a.as<X>(x.mesh());     // and back
/// ```

#include <shardwise/tensor/parts.hpp>

namespace shardwise::detail {

/// A cheap handle, as a tensor is; its mesh must live as long.
struct AnyTensor {
  MeshView mesh;
  DataType type = DataType::f32;
  int rank = 0;
  AnyShape shape{};  ///< global; ones behind the extents
  Layout layout;
  Buffer buffer;

  constexpr AnyTensor() = default;
  template <TensorType X>
  constexpr explicit AnyTensor(const X& x)
      : AnyTensor(MeshView(with_block(x).mesh()), data_type_of<typename X::Element>(), X::layout, x.shape(),
                  x.buffer()) {}
  [[gnu::noinline]] constexpr AnyTensor(const MeshView& on, DataType element, const Layout& placements,
                                        std::span<const Index> extents, const Buffer& block)
      : mesh(on),
        type(element),
        rank(static_cast<int>(extents.size())),
        shape(padded(extents)),
        layout(placements),
        buffer(block) {}
  /// `X`, which must be this tensor's type.
  template <TensorType X>
  constexpr X as(const typename X::MeshOf& typed_mesh) const {
    Shape<X::rank> extents{};
    for (int dim = 0; dim < extents.size(); ++dim) extents[dim] = shape[dim];
    return X(typed_mesh, extents, buffer);
  }

  std::vector<Index> extents() const { return {shape.begin(), shape.begin() + rank}; }
  constexpr explicit operator bool() const { return static_cast<bool>(buffer); }
  constexpr Index element_bytes() const { return size_of(type); }
  /// The indices that the rank at `coordinates` holds, and this rank.
  constexpr AnyBox box_at(const MeshSizes& coordinates) const {
    return local_box(shape, layout, mesh.sizes(), coordinates);
  }
  constexpr AnyBox box() const { return box_at(mesh.coordinates()); }
  /// Of the ranks that have the same block, is this the first? So that each element of the whole tensor counts once.
  constexpr bool counts_here() const {
    return axes_where(layout.axes, [&](int axis) {
             return !layout[axis].is_shard() && mesh.coordinates()[axis] != 0;
           }) == 0;
  }
  /// Of this rank's block.
  constexpr Index local_elements() const { return box().elements(); }

  /// The same bytes in another layout: for who knows that they are.
  constexpr AnyTensor relaid(const Layout& other) const { return with(other, buffer); }
  /// Other bytes in another layout.
  constexpr AnyTensor with(const Layout& other, Buffer block) const {
    return {*this, other, std::move(block)};
  }
  /// A tensor in another layout whose block is not yet written.
  constexpr AnyTensor unwritten(const Layout& other, MemoryUse use) const {
    const Index bytes =
        local_box(shape, other, mesh.sizes(), mesh.coordinates()).elements() * element_bytes();
    return with(other, allocate_buffer(mesh, bytes, use));
  }

 private:
  constexpr AnyTensor(const AnyTensor& like, const Layout& other, Buffer&& block)
      : mesh(like.mesh),
        type(like.type),
        rank(like.rank),
        shape(like.shape),
        layout(other),
        buffer(std::move(block)) {}
};

/// This rank's block of `x`, as kernels see one; its elements are no bytes.
constexpr View<char, max_rank> view_of(const AnyTensor& x) {
  const AnyBox box = x.box();
  return {x.mesh.dry() ? nullptr : static_cast<char*>(x.buffer->data), box.size, box.begin, x.shape};
}

/// For who changes `x` in place: gives it a copy if somebody else reads its block. Counted as `use` from now on.
constexpr void make_own(AnyTensor& x, MemoryUse use) {
  if (x.buffer.unique()) return x.buffer->set_use(use);
  const Buffer read = std::exchange(x.buffer, allocate_buffer(x.mesh, x.buffer->bytes, use));
  if (!x.mesh.dry() && read->bytes > 0) {
    std::memcpy(x.buffer->data, read->data, static_cast<std::size_t>(read->bytes));
  }
}

/// A tensor on its way, whatever brings it.
class UnderWay : public Pooled<UnderWay>, public Counted {
 public:
  /// Waits for it, and returns it.
  constexpr virtual AnyTensor finish() = 0;

 protected:
  constexpr ~UnderWay() = default;
};

}  // namespace shardwise::detail
