// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A pool that keeps the blocks returned to it: a repeating training step allocates nothing from the system, and
/// its pages are warm (a fresh page costs about five times as much as a warm one).
///
/// ```
/// MemoryPool pool;
/// void* block = pool.allocate(1 << 20);
/// pool.deallocate(block, 1 << 20);
/// ```

#include <array>
#include <bit>
#include <cstdio>

#include <shardwise/base/bodies.hpp>
#include <shardwise/base/index.hpp>
#include <shardwise/base/mutex.hpp>
#include <shardwise/memory/large_blocks.hpp>

namespace shardwise {

/// Blocks of up to 4 KiB, with a free list for each size class, so that they do not fragment the memory of large
/// blocks. With eight classes per doubling, sizes are rounded up by at most an eighth.
class SmallBlocks {
 public:
  static constexpr std::size_t largest = 4096;

  SmallBlocks() = default;
  SmallBlocks& operator=(SmallBlocks&&) = delete;
  ~SmallBlocks() { trim(); }

  void* allocate(std::size_t bytes) {
    const std::size_t index = size_class(bytes);
    FreeBlock*& head = free_[index];
    if (head) return std::exchange(head, head->next);
    void* block = ::operator new (class_bytes(index), std::align_val_t{block_alignment});
    system_bytes_ += class_bytes(index);
    return block;
  }
  void deallocate(void* block, std::size_t bytes) noexcept {
    FreeBlock*& head = free_[size_class(bytes)];
    head = new (block) FreeBlock{head};
  }
  std::size_t system_bytes() const { return system_bytes_; }
  void trim() noexcept {
    for (std::size_t index = 0; index < free_.size(); ++index) {
      while (FreeBlock* block = free_[index]) {
        free_[index] = block->next;
        system_bytes_ -= class_bytes(index);
        ::operator delete (static_cast<void*>(block), std::align_val_t{block_alignment});
      }
    }
  }

 private:
  struct FreeBlock {
    FreeBlock* next;
  };
  static constexpr std::size_t size_class(std::size_t bytes) {
    const std::size_t units = (std::max<std::size_t>(bytes, 1) + block_alignment - 1) / block_alignment;
    if (units <= 8) return units - 1;
    const auto doubling = static_cast<std::size_t>(std::bit_width(units - 1)) - 4;
    return doubling * 8 + ((units - 1) >> doubling);  // the step: 8 … 15
  }
  static constexpr std::size_t class_bytes(std::size_t index) {
    if (index < 8) return (index + 1) * block_alignment;
    const std::size_t doubling = index / 8 - 1, step = index % 8 + 8;
    return ((step + 1) << doubling) * block_alignment;
  }

  std::array<FreeBlock*, 32> free_{};
  std::size_t system_bytes_ = 0;
};

/// States how many bytes were requested.
class OutOfMemory : public std::bad_alloc {
 public:
  /// `bytes`: the size that was requested.
  explicit OutOfMemory(std::size_t bytes) noexcept {
    std::snprintf(text_, sizeof text_, "the system has no memory for a block of %zu bytes", bytes);
  }
  const char* what() const noexcept override { return text_; }

 private:
  char text_[80];
};

/// Blocks are aligned to 64 bytes. Thread-safe.
class MemoryPool {
 public:
  static constexpr std::size_t alignment = block_alignment;

  /// Reserves `range` bytes of addresses at a time for large blocks, or fewer if the system limits them.
  explicit MemoryPool(Index range = Index{1} << 40) : large_(static_cast<std::size_t>(range)) {}

  /// An uninitialised block; `bytes` may be 0. Throws `OutOfMemory` if the system has no more.
  void* allocate(Index bytes);

  void deallocate(void* block, Index bytes) noexcept;

  /// Bytes taken from the system so far, in use or kept. Parts that were never written may not be backed by pages yet.
  Index system_bytes() const {
    const detail::Locked lock(mutex_);
    return static_cast<Index>(small_.system_bytes() + large_.system_bytes());
  }

  /// The most bytes in use at a time so far, as they were asked for.
  Index peak_bytes() const {
    const detail::Locked lock(mutex_);
    return static_cast<Index>(peak_);
  }

  /// Returns unused memory to the system: whole pages of large blocks. With huge pages, the system may give up to 2
  /// MiB back to the process, uncounted, as soon as one byte of them is written.
  void trim() {
    const detail::Locked lock(mutex_);
    small_.trim();
    large_.trim();
  }

 private:
  static std::size_t positive(Index bytes) { return static_cast<std::size_t>(std::max<Index>(bytes, 1)); }

  mutable detail::Mutex mutex_;
  SmallBlocks small_;
  LargeBlocks large_;
  std::size_t used_ = 0, peak_ = 0;
};

/// The pool of this process. It is never destroyed, so that tensors may outlive `main`.
MemoryPool& memory_pool();

#ifdef SHARDWISE_BODIES

SHARDWISE_INLINE MemoryPool& memory_pool() {
  static MemoryPool& pool = *new MemoryPool;
  return pool;
}

SHARDWISE_INLINE void* MemoryPool::allocate(Index bytes) {
  const std::size_t size = positive(bytes);
  const detail::Locked lock(mutex_);
  try {
    void* block = size <= SmallBlocks::largest ? small_.allocate(size) : large_.allocate(size);
    used_ += size;
    peak_ = std::max(peak_, used_);
    return block;
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(size);
  }
}

SHARDWISE_INLINE void MemoryPool::deallocate(void* block, Index bytes) noexcept {
  const std::size_t size = positive(bytes);
  const detail::Locked lock(mutex_);
  used_ -= size;
  if (size <= SmallBlocks::largest) {
    small_.deallocate(block, size);
  } else {
    large_.deallocate(block);
  }
}

#endif

}  // namespace shardwise
