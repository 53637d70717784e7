// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The memory of one rank's block, counted by the mesh's recorder; on a dry mesh it is only counted. And the block as a
/// kernel sees it.

#include <cstring>

#include <shardwise/layout/block.hpp>
#include <shardwise/memory/shared.hpp>
#include <shardwise/mesh/mesh_state.hpp>

namespace shardwise {

namespace detail {

/// A block of bytes, 64-byte aligned, uninitialised.
struct BufferBlock : Counted {
  constexpr BufferBlock(Recorder* counted_by, bool dry, Index size, MemoryUse what_for)
      : bytes(size), recorder(counted_by), use(what_for) {
    if (recorder) epoch = recorder->allocate(use, bytes);
    if (!dry) data = memory_pool().allocate(bytes);
  }
  BufferBlock& operator=(BufferBlock&&) = delete;
  constexpr ~BufferBlock() {
    if (recorder) recorder->release(use, bytes, epoch);
    if (data) memory_pool().deallocate(data, bytes);
  }

  /// From now on counts the block under another use.
  constexpr void set_use(MemoryUse now) {
    if (recorder && recorder->release(use, bytes, epoch)) recorder->allocate(now, bytes);
    use = now;
  }

  void* data = nullptr;  ///< null on a dry mesh
  Index bytes;
  Recorder* recorder;
  unsigned epoch = 0;
  unsigned changes = 0;  ///< of a parameter's value, since it was created
  MemoryUse use;
};

/// Throws because a tensor has no block.
[[noreturn, gnu::cold]] void no_block();
/// Throws because elements are asked of a tensor on a dry mesh.
[[noreturn, gnu::cold]] void no_memory();

}  // namespace detail

/// A counted handle to a block; if no other tensor shares it (`unique()`), its owner may write to it.
using Buffer = Shared<detail::BufferBlock>;

namespace detail {

SHARDWISE_COMPILE(end_pooled<BufferBlock>)

SHARDWISE_ONCE(Buffer, new_buffer, (Recorder * recorder, bool dry, Index bytes, MemoryUse use),
               (recorder, dry, bytes, use), Buffer::make(recorder, dry, bytes, use))

}  // namespace detail

/// A block for a tensor on `mesh`; on a dry mesh it has a size and no memory.
template <class MeshType>
constexpr Buffer allocate_buffer(const MeshType& mesh, Index bytes, MemoryUse use = MemoryUse::activation) {
  return detail::new_buffer(mesh.recorder(), mesh.dry(), bytes, use);
}
/// A block of `bytes` on a mesh of the same kind as that of `like`: real if `like` has memory, as even real blocks
/// of no bytes do.
constexpr Buffer allocate_buffer(const Buffer& like, Recorder* recorder, Index bytes, MemoryUse use) {
  return detail::new_buffer(recorder, like->data == nullptr, bytes, use);
}

namespace detail {

/// Replaces `buffer` by a copy that no other tensor shares. Throws `std::logic_error` if `buffer` is empty.
[[gnu::noinline]] constexpr void make_own(Buffer& buffer, Recorder* recorder) {
  if (!buffer) no_block();
  const Buffer read = std::exchange(buffer, allocate_buffer(buffer, recorder, buffer->bytes, buffer->use));
  if (!__builtin_is_constant_evaluated() && read->data && read->bytes > 0) {
    std::memcpy(buffer->data, read->data, static_cast<std::size_t>(read->bytes));
  }
}

}  // namespace detail

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

/// The numbers of a block; null on a dry mesh.
template <class T>
constexpr T* data_of(const Buffer& buffer) {
  return __builtin_is_constant_evaluated() ? nullptr : static_cast<T*>(buffer->data);
}

#ifdef SHARDWISE_BODIES

SHARDWISE_INLINE void no_block() {
  throw std::logic_error(
      "an empty tensor is used: one that was moved from, or a gradient that no backward pass has reached. A "
      "parameter has gradient() before reduce_gradients, and finished_gradient() from then until the "
      "optimizer's step");
}
SHARDWISE_INLINE void no_memory() {
  throw std::logic_error(
      "elements are asked of a tensor on a dry mesh, which has none: its size alone is counted");
}

#endif

}  // namespace detail

}  // namespace shardwise
