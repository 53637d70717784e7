// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Large blocks of the pool: one address range is split into blocks, and free neighbours are joined again, so
/// memory that held activations can hold gradients of other sizes. Allocation takes the free block of the lowest
/// address that fits, found in a tree (Stephenson, "Fast fits: new methods for dynamic storage allocation", 1983).

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace shardwise {

/// Alignment of all blocks, in bytes: a cache line, and the widest vector.
inline constexpr std::size_t block_alignment = 64;

/// Blocks of any size from an address range, each after a header of 64 bytes. The range is reserved as a whole and
/// made usable as its end grows; when it is used up, another one is reserved.
class LargeBlocks {
 public:
  /// Reserves `range` bytes of addresses at a time, or fewer if the system limits them.
  explicit LargeBlocks(std::size_t range) : range_bytes_(range) {}
  LargeBlocks& operator=(LargeBlocks&&) = delete;
  ~LargeBlocks() {
    while (Range* range = range_) {
      range_ = range->previous;
      ::munmap(range, range->bytes);
    }
  }

  /// An uninitialised block of at least `bytes` bytes.
  void* allocate(std::size_t bytes) {
    const std::size_t needed = round_up(bytes, block_alignment) + sizeof(Block);
    Block* block = find(needed);
    if (!block) block = grow(needed);
    unlink(*block);
    split(*block, needed);
    block->free = false;
    return block + 1;
  }

  /// Frees a block, and joins it with free neighbours.
  void deallocate(void* memory) noexcept {
    Block* block = static_cast<Block*>(memory) - 1;
    block->free = true;
    block->absent = 0;
    link(*joined(block));
  }

  /// Bytes made usable, without those that `trim` returned and that have not been used again.
  std::size_t system_bytes() const { return system_bytes_; }

  /// Returns the pages of free blocks to the system; their addresses stay reserved.
  void trim() noexcept {
    const std::size_t page = page_bytes();
    for (Range* range = range_; range; range = range->previous) {
      for (auto* block = reinterpret_cast<Block*>(range + 1); block->bytes != 0; block = after(block)) {
        if (!block->free) continue;
        const std::size_t begin = round_up(address(block + 1), page);
        const std::size_t end = address(after(block)) / page * page;
        if (end <= begin || end - begin <= block->absent) continue;
        if (::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED) != 0) continue;
        system_bytes_ -= end - begin - block->absent;
        block->absent = end - begin;
      }
    }
  }

 private:
  /// The header of a block. The blocks of a range are contiguous, up to an end marker that is never free.
  struct alignas(block_alignment) Block {
    Block* before;       ///< the lower neighbour; null for the first
    std::size_t bytes;   ///< with this header; 0 for an end marker
    std::size_t absent;  ///< while free: a lower bound of the bytes in pages given back
    Block* left;         ///< in the tree of the free blocks
    Block* right;
    bool free;
  };
  struct alignas(block_alignment) Range {
    Range* previous;
    std::size_t bytes;
  };
  static_assert(sizeof(Block) == block_alignment && sizeof(Range) == block_alignment);

  /// Ranges grow by this step, a multiple of every page size in use.
  static constexpr std::size_t growth = std::size_t{1} << 21;

  static std::size_t address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }
  static std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }
  static constexpr std::size_t round_up(std::size_t bytes, std::size_t multiple) {
    return (bytes + multiple - 1) / multiple * multiple;
  }
  static Block* at(Block* block, std::size_t bytes) {
    return reinterpret_cast<Block*>(reinterpret_cast<std::byte*>(block) + bytes);
  }
  static Block* after(Block* block) { return at(block, block->bytes); }

  // ---- The free blocks, in a tree -----------------------------------------------------------------------------------
  // A heap-ordered search tree (treap): addresses increase from left to right, sizes decrease from the root down. A
  // hash of the address breaks ties, because blocks of equal size would form a chain.
  static bool above(const Block& a, const Block& b) {
    if (a.bytes != b.bytes) return a.bytes > b.bytes;
    auto hash = [](const Block& block) { return std::uint64_t{address(&block)} * 0x9e3779b97f4a7c15; };
    return hash(a) > hash(b);
  }

  void link(Block& block) {
    Block** place = &root_;
    while (*place && above(**place, block)) {
      place = address(&block) < address(*place) ? &(*place)->left : &(*place)->right;
    }
    Block* rest = std::exchange(*place, &block);
    Block** left = &block.left;
    Block** right = &block.right;
    while (rest) {
      if (address(rest) < address(&block)) {
        *left = rest;
        left = &rest->right;
        rest = rest->right;
      } else {
        *right = rest;
        right = &rest->left;
        rest = rest->left;
      }
    }
    *left = *right = nullptr;
  }

  void unlink(Block& block) {
    Block** place = &root_;
    while (*place != &block) place = address(&block) < address(*place) ? &(*place)->left : &(*place)->right;
    Block* left = block.left;
    Block* right = block.right;
    while (left && right) {
      if (above(*left, *right)) {
        *place = left;
        place = &left->right;
        left = left->right;
      } else {
        *place = right;
        place = &right->left;
        right = right->left;
      }
    }
    *place = left ? left : right;
  }

  /// The free block of the lowest address that holds `bytes`; null if there is none.
  Block* find(std::size_t bytes) const {
    if (!root_ || root_->bytes < bytes) return nullptr;
    Block* block = root_;
    while (block->left && block->left->bytes >= bytes) block = block->left;
    return block;
  }

  // ---- Blocks and their neighbours --------------------------------------------------------------------------------
  /// Merges two neighbours; the upper block's header becomes plain memory.
  static void join(Block& lower, const Block& upper) {
    lower.bytes += upper.bytes;
    lower.absent += upper.absent;
    after(&lower)->before = &lower;
  }
  /// Joins a free block that is not in the tree with its free neighbours.
  Block* joined(Block* block) {
    if (Block* upper = after(block); upper->free) {
      unlink(*upper);
      join(*block, *upper);
    }
    if (Block* lower = block->before; lower && lower->free) {
      unlink(*lower);
      join(*lower, *block);
      block = lower;
    }
    return block;
  }
  /// Shrinks a free block that is not in the tree to `bytes`, and frees the rest.
  void split(Block& block, std::size_t bytes) {
    // A page that both parts share counts as used again: it holds the header of the rest.
    const std::size_t needed =
        block.absent == 0 ? 0 : std::min(block.absent, bytes + sizeof(Block) + page_bytes());
    system_bytes_ += needed;
    if (block.bytes == bytes) return;
    Block* rest =
        new (at(&block, bytes)) Block{&block, block.bytes - bytes, block.absent - needed, {}, {}, true};
    after(rest)->before = rest;
    block.bytes = bytes;
    link(*rest);
  }

  // ---- Memory from the system -------------------------------------------------------------------------------------
  /// A free block of at least `bytes` at the end of a range.
  Block* grow(std::size_t bytes) {
    if (missing(bytes) > room()) open_range(bytes);
    Block* block = end_->before;
    if (const std::size_t more = std::min(round_up(missing(bytes), growth), room())) {
      make_usable(end_ + 1, more);
      block = end_;
      *block = {end_->before, more, 0, {}, {}, true};
      end_ = new (after(block)) Block{block, 0, 0, {}, {}, false};
      block = joined(block);
      link(*block);
    }
    return block;
  }
  /// Bytes missing from the last block.
  std::size_t missing(std::size_t bytes) const {
    const Block* last = end_ ? end_->before : nullptr;
    const std::size_t have = last && last->free ? last->bytes : 0;
    return bytes > have ? bytes - have : 0;
  }
  /// Bytes of the range that are not usable yet.
  std::size_t room() const { return range_ ? address(range_) + range_->bytes - address(end_ + 1) : 0; }

  void open_range(std::size_t bytes) {
    const std::size_t least = round_up(bytes, growth) + growth;
    std::size_t reserved = std::max(round_up(range_bytes_, growth), least);
    void* memory = reserve(reserved);
    while (!memory && reserved > least) {
      reserved = std::max(round_up(reserved / 2, growth), least);
      memory = reserve(reserved);
    }
    if (!memory) throw std::bad_alloc();
    try {
      make_usable(memory, growth);
    } catch (...) {
      ::munmap(memory, reserved);
      throw;
    }
    range_ = new (memory) Range{range_, reserved};
    auto* first = new (range_ + 1) Block{nullptr, growth - sizeof(Range) - sizeof(Block), 0, {}, {}, true};
    end_ = new (after(first)) Block{first, 0, 0, {}, {}, false};
    link(*first);
  }
  static void* reserve(std::size_t bytes) {
    void* memory = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
#ifdef MADV_HUGEPAGE
    ::madvise(memory, bytes, MADV_HUGEPAGE);  // a hint: works without huge pages too
#endif
    return memory;
  }
  void make_usable(void* memory, std::size_t bytes) {
    if (::mprotect(memory, bytes, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    system_bytes_ += bytes;
  }

  std::size_t range_bytes_;
  Range* range_ = nullptr;  ///< the newest
  Block* end_ = nullptr;    ///< its end marker
  Block* root_ = nullptr;   ///< the largest free block
  std::size_t system_bytes_ = 0;
};

}  // namespace shardwise
