// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A tensor whose element type, rank, mesh and layout are run-time values. Code that moves or stores blocks works
/// on it, and is compiled once for all tensor types.
///
/// ```
/// AnyTensor a(x);                    // the same block
/// auto same = a.as<X>(x.mesh());     // and back
/// ```

#include <shardwise/tensor/parts.hpp>

namespace shardwise::detail {

/// A cheap handle, like a tensor; its mesh must outlive it.
struct AnyTensor {
  MeshView mesh;
  DataType type = DataType::f32;
  int rank = 0;
  AnyShape shape{};  ///< global; padded with ones
  Layout layout;
  Buffer buffer;
  int parameter = -1;  ///< the number of the parameter whose gradient this is; ranks compare it
  int module = -1;     ///< the number in a log of the module whose parameter, or gradient, this is

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
  /// This tensor as an `X`, which must be its type.
  template <TensorType X>
  constexpr X as(const typename X::MeshOf& typed_mesh) const {
    Shape<X::rank> extents{};
    for (int dim = 0; dim < extents.size(); ++dim) extents[dim] = shape[dim];
    return X(typed_mesh, extents, buffer);
  }

  std::vector<Index> extents() const { return {shape.begin(), shape.begin() + rank}; }
  constexpr explicit operator bool() const { return static_cast<bool>(buffer); }
  constexpr Index element_bytes() const { return size_of(type); }
  /// The global indices that the rank at `coordinates` holds, and those of this rank.
  constexpr AnyBox box_at(const MeshSizes& coordinates) const {
    return local_box(shape, layout, mesh.sizes(), coordinates);
  }
  constexpr AnyBox box() const { return box_at(mesh.coordinates()); }
  /// Whether this is the first of the ranks with the same block: each element of the whole tensor counts on one rank.
  constexpr bool counts_here() const {
    return axes_where(layout.axes, [&](int axis) {
             return !layout[axis].is_shard() && mesh.coordinates()[axis] != 0;
           }) == 0;
  }
  constexpr Index local_elements() const { return box().elements(); }

  /// The same block under another layout; unchecked: its bytes must be right for that layout.
  constexpr AnyTensor with_layout(const Layout& other) const { return with(other, buffer); }
  /// A tensor of this shape with another layout and block.
  constexpr AnyTensor with(const Layout& other, Buffer block) const {
    return {*this, other, std::move(block)};
  }
  /// A tensor of this shape with another layout and an uninitialised block.
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
        buffer(std::move(block)),
        parameter(like.parameter),
        module(like.module) {}
};

/// This rank's block of `x` as a view for kernels; `char` stands for any element type.
constexpr View<char, max_rank> view_of(const AnyTensor& x) {
  const AnyBox box = x.box();
  return {x.mesh.dry() ? nullptr : static_cast<char*>(x.buffer->data), box.size, box.begin, x.shape};
}

/// Prepares `x` to be changed in place: copies its block if other handles share it. From now on counted as `use`.
constexpr void make_own(AnyTensor& x, MemoryUse use) {
  if (!x.buffer.unique()) make_own(x.buffer, x.mesh.recorder());
  x.buffer->set_use(use);
}

/// A tensor in flight, whatever transfers it.
class AnyInFlight : public Pooled<AnyInFlight>, public Counted {
 public:
  /// Waits for the tensor and returns it.
  constexpr virtual AnyTensor finish() = 0;

 protected:
  constexpr ~AnyInFlight() = default;
};

}  // namespace shardwise::detail
