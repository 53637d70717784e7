// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A pool that keeps what is returned to it: a training step that repeats allocates nothing from the system,
/// and finds its pages warm (a fresh page costs about five times as much as a warm one).

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

#include <shardwise/layout/index.hpp>

namespace shardwise {

/// Blocks are aligned to 64 bytes, their sizes rounded up by at most an eighth. Thread-safe.
class MemoryPool {
 public:
  static constexpr std::size_t alignment = 64;

  void* allocate(Index bytes) {
    SizeClass size = size_class(bytes);
    std::lock_guard lock(mutex_);
    FreeBlock*& head = free_[size.index];
    if (head) return std::exchange(head, head->next);
    void* block = ::operator new (size.bytes, std::align_val_t{alignment});
    system_bytes_ += static_cast<Index>(size.bytes);
    return block;
  }

  void deallocate(void* block, Index bytes) noexcept {
    SizeClass size = size_class(bytes);
    std::lock_guard lock(mutex_);
    free_[size.index] = new (block) FreeBlock{free_[size.index]};
  }

  /// Bytes taken from the system up to now, in use or kept.
  Index system_bytes() const {
    std::lock_guard lock(mutex_);
    return system_bytes_;
  }

  /// Gives the blocks that are not in use back to the system.
  void trim() {
    std::lock_guard lock(mutex_);
    for (std::size_t index = 0; index < free_.size(); ++index) {
      while (FreeBlock* block = free_[index]) {
        free_[index] = block->next;
        system_bytes_ -= static_cast<Index>(class_bytes(index));
        ::operator delete (static_cast<void*>(block), std::align_val_t{alignment});
      }
    }
  }

 private:
  struct FreeBlock {
    FreeBlock* next;
  };
  struct SizeClass {
    std::size_t index;
    std::size_t bytes;
  };

  /// Eight classes to each doubling, in units of the alignment.
  static SizeClass size_class(Index bytes) {
    auto units = (static_cast<std::size_t>(bytes < 1 ? 1 : bytes) + alignment - 1) / alignment;
    if (units <= 8) return {units - 1, units * alignment};
    auto doubling = static_cast<std::size_t>(std::bit_width(units - 1)) - 4;
    std::size_t step = (units - 1) >> doubling;  // 8 … 15
    std::size_t index = doubling * 8 + step;
    return {index, class_bytes(index)};
  }
  static std::size_t class_bytes(std::size_t index) {
    if (index < 8) return (index + 1) * alignment;
    std::size_t doubling = index / 8 - 1, step = index % 8 + 8;
    return ((step + 1) << doubling) * alignment;
  }

  mutable std::mutex mutex_;
  std::array<FreeBlock*, 8 * 56> free_{};
  Index system_bytes_ = 0;
};

/// The pool of this process. It is never destroyed, so that tensors may outlive `main`.
inline MemoryPool& memory_pool() {
  static MemoryPool& pool = *new MemoryPool;
  return pool;
}

}  // namespace shardwise
