// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Small blocks of the pool: a list for each size, so that they do not break up the memory of the large ones.

#include <array>
#include <bit>
#include <cstddef>
#include <new>
#include <utility>

namespace shardwise {

/// Of all blocks, in bytes: a cache line, and the widest vector.
inline constexpr std::size_t block_alignment = 64;

/// Blocks of up to 4 KiB, each size class by itself: eight to a doubling, so sizes are rounded up by at most an eighth.
class SmallBlocks {
 public:
  static constexpr std::size_t alignment = block_alignment;
  static constexpr std::size_t largest = 4096;

  SmallBlocks() = default;
  SmallBlocks(const SmallBlocks&) = delete;
  SmallBlocks& operator=(const SmallBlocks&) = delete;
  ~SmallBlocks() { trim(); }

  void* allocate(std::size_t bytes) {
    const std::size_t index = size_class(bytes);
    FreeBlock*& head = free_[index];
    if (head) return std::exchange(head, head->next);
    void* block = ::operator new (class_bytes(index), std::align_val_t{alignment});
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
        ::operator delete (static_cast<void*>(block), std::align_val_t{alignment});
      }
    }
  }

 private:
  struct FreeBlock {
    FreeBlock* next;
  };
  static constexpr std::size_t size_class(std::size_t bytes) {
    const std::size_t units = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment;
    if (units <= 8) return units - 1;
    const auto doubling = static_cast<std::size_t>(std::bit_width(units - 1)) - 4;
    return doubling * 8 + ((units - 1) >> doubling);  // the step: 8 … 15
  }
  static constexpr std::size_t class_bytes(std::size_t index) {
    if (index < 8) return (index + 1) * alignment;
    const std::size_t doubling = index / 8 - 1, step = index % 8 + 8;
    return ((step + 1) << doubling) * alignment;
  }

  std::array<FreeBlock*, 32> free_{};
  std::size_t system_bytes_ = 0;
};

}  // namespace shardwise
