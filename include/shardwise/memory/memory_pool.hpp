// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A pool that keeps what is returned to it: a training step that repeats allocates nothing from the system,
/// and finds its pages warm (a fresh page costs about five times as much as a warm one).
///
/// ```
/// MemoryPool pool;
/// void* block = pool.allocate(1 << 20);
/// pool.deallocate(block, 1 << 20);
/// ```

#include <mutex>

#include <shardwise/layout/index.hpp>
#include <shardwise/memory/large_blocks.hpp>
#include <shardwise/memory/small_blocks.hpp>

namespace shardwise {

/// Blocks are aligned to 64 bytes. Thread-safe.
class MemoryPool {
 public:
  static constexpr std::size_t alignment = block_alignment;

  /// Reserves `range` bytes of addresses at a time for large blocks, or less where the system allows no more.
  explicit MemoryPool(Index range = Index{1} << 40) : large_(static_cast<std::size_t>(range)) {}

  /// An uninitialised block; also of no bytes. Throws std::bad_alloc if the system has no more.
  void* allocate(Index bytes) {
    const std::size_t size = positive(bytes);
    std::lock_guard lock(mutex_);
    return size <= SmallBlocks::largest ? small_.allocate(size) : large_.allocate(size);
  }

  /// Takes a block back that `allocate(bytes)` gave.
  void deallocate(void* block, Index bytes) noexcept {
    const std::size_t size = positive(bytes);
    std::lock_guard lock(mutex_);
    if (size <= SmallBlocks::largest) {
      small_.deallocate(block, size);
    } else {
      large_.deallocate(block);
    }
  }

  /// Bytes taken from the system up to now, in use or kept. What was never written may have no
  /// page behind it yet.
  Index system_bytes() const {
    std::lock_guard lock(mutex_);
    return static_cast<Index>(small_.system_bytes() + large_.system_bytes());
  }

  /// Gives the memory that is not in use back to the system: of large blocks whole pages. Where the system has huge
  /// pages it may give up to 2 MiB back to the process, uncounted, as soon as one byte of them is written.
  void trim() {
    std::lock_guard lock(mutex_);
    small_.trim();
    large_.trim();
  }

 private:
  static std::size_t positive(Index bytes) { return static_cast<std::size_t>(std::max<Index>(bytes, 1)); }

  mutable std::mutex mutex_;
  SmallBlocks small_;
  LargeBlocks large_;
};

/// The pool of this process. It is never destroyed, so that tensors may outlive `main`.
inline MemoryPool& memory_pool() {
  static MemoryPool& pool = *new MemoryPool;
  return pool;
}

}  // namespace shardwise
