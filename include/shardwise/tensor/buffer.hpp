// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The memory of one rank's block: counted by the mesh's recorder, and on a dry mesh only counted.

#include <shardwise/memory/shared.hpp>
#include <shardwise/mesh/mesh_state.hpp>

namespace shardwise {

/// A counted handle to a block of bytes, 64-byte aligned, uninitialised.
class Buffer {
 public:
  constexpr Buffer() = default;

  /// A block for a tensor on `mesh`; on a dry mesh it has a size and no memory.
  template <class MeshType>
  static constexpr Buffer allocate(const MeshType& mesh, Index bytes, MemoryUse use = MemoryUse::activation) {
    return allocate(mesh.recorder(), MeshType::dry, bytes, use);
  }
  static constexpr Buffer allocate(const MeshView& mesh, Index bytes, MemoryUse use = MemoryUse::activation) {
    return allocate(mesh.recorder(), mesh.dry(), bytes, use);
  }

  /// Another block, of this size or of another, on a mesh of this kind: a real one if it has memory, which a block of no
  /// bytes has too.
  constexpr Buffer another(Recorder* recorder, MemoryUse use) const {
    return another(recorder, use, block_->bytes);
  }
  constexpr Buffer another(Recorder* recorder, MemoryUse use, Index bytes) const {
    return allocate(recorder, block_->data == nullptr, bytes, use);
  }

  constexpr explicit operator bool() const { return static_cast<bool>(block_); }
  constexpr Index bytes() const { return block_->bytes; }
  /// No other tensor shares the block, so its owner may write to it.
  constexpr bool unique() const { return block_.unique(); }
  /// Null on a dry mesh.
  constexpr void* data() const { return block_->data; }
  /// Counts the block as used for something else from now on.
  constexpr void set_use(MemoryUse use) const { block_->set_use(use); }

 private:
  [[gnu::noinline]] static constexpr Buffer allocate(Recorder* recorder, bool dry, Index bytes,
                                                     MemoryUse use) {
    Buffer buffer;
    buffer.block_ = Shared<Block>::make(recorder, bytes, use, dry);
    return buffer;
  }

  struct Block : Counted {
    constexpr Block(Recorder* counted_by, Index size, MemoryUse what_for, bool dry)
        : bytes(size), recorder(counted_by), use(what_for) {
      if (recorder) {
        epoch = recorder->epoch();
        recorder->allocate(use, bytes);
      }
      if (!dry) data = memory_pool().allocate(bytes);
    }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    constexpr ~Block() {
      if (recorder && recorder->epoch() == epoch) recorder->release(use, bytes);
      if (data) memory_pool().deallocate(data, bytes);
    }

    constexpr void set_use(MemoryUse now) {
      if (recorder && recorder->epoch() == epoch) {
        recorder->release(use, bytes);
        recorder->allocate(now, bytes);
      }
      use = now;
    }

    void* data = nullptr;
    Index bytes;
    Recorder* recorder;
    unsigned epoch = 0;
    MemoryUse use;
  };

  Shared<Block> block_;
};

}  // namespace shardwise
