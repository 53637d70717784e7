// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The pool's blocks are aligned, apart from each other and keep what is written; free ones are split and joined.

#include <doctest/doctest.h>
#include <shardwise/memory/memory_pool.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <random>
#include <thread>
#include <vector>

using shardwise::Index;
using shardwise::MemoryPool;

namespace {

constexpr Index MiB = Index{1} << 20;

struct Held {
  unsigned char* data;
  Index bytes;
  unsigned char canary;
};

Held take(MemoryPool& pool, Index bytes, std::mt19937_64& random) {
  const Held held{static_cast<unsigned char*>(pool.allocate(bytes)), bytes,
                  static_cast<unsigned char>(random())};
  std::memset(held.data, held.canary, static_cast<std::size_t>(bytes));
  return held;
}

bool intact(const Held& held) {
  return std::all_of(held.data, held.data + held.bytes, [&](unsigned char c) { return c == held.canary; });
}

bool aligned(const void* block) {
  return reinterpret_cast<std::uintptr_t>(block) % MemoryPool::alignment == 0;
}

bool apart(std::vector<Held> blocks) {
  std::sort(blocks.begin(), blocks.end(), [](const Held& a, const Held& b) { return a.data < b.data; });
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    if (blocks[i - 1].data + std::max<Index>(blocks[i - 1].bytes, 1) > blocks[i].data) return false;
  }
  return true;
}

/// Sizes of all magnitudes up to a MiB, many odd, some 0, some around the border between small and large.
Index any_size(std::mt19937_64& random) {
  if (random() % 8 == 0) return 4096 + static_cast<Index>(random() % 129) - 64;
  return static_cast<Index>(random() >> 44 >> random() % 21);
}

/// Allocates and frees at random, checks every block, and frees all.
bool exercise(MemoryPool& pool, std::uint64_t seed, int operations) {
  std::mt19937_64 random(seed);
  std::vector<Held> blocks;
  bool good = true;
  for (int i = 0; i < operations; ++i) {
    if (blocks.empty() || (blocks.size() < 60 && random() % 2 == 0)) {
      blocks.push_back(take(pool, any_size(random), random));
      good = good && aligned(blocks.back().data);
      if (i % 64 == 0) good = good && apart(blocks);
    } else {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      good = good && intact(blocks.back());
      pool.deallocate(blocks.back().data, blocks.back().bytes);
      blocks.pop_back();
    }
    if (random() % 1000 == 0) pool.trim();
  }
  for (const Held& held : blocks) {
    good = good && intact(held);
    pool.deallocate(held.data, held.bytes);
  }
  return good;
}

}  // namespace

TEST_CASE("blocks keep what is written, whatever else is allocated, freed and trimmed") {
  for (const Index range : {Index{1} << 40, 4 * MiB}) {  // the second opens further ranges
    INFO("ranges of ", range);
    MemoryPool pool(range);
    for (std::uint64_t seed = 1; seed <= 5; ++seed) CHECK(exercise(pool, seed, 5000));
  }
}

TEST_CASE("blocks of no bytes, and sizes at the border between small and large") {
  MemoryPool pool;
  std::mt19937_64 random(1);
  std::vector<Held> blocks;
  for (const Index bytes : {0, 0, 1, 63, 64, 65, 511, 513, 4095, 4096, 4097, 4160, 4161}) {
    blocks.push_back(take(pool, bytes, random));
    CHECK(aligned(blocks.back().data));
  }
  CHECK(apart(blocks));
  for (const Held& held : blocks) {
    CHECK(intact(held));
    pool.deallocate(held.data, held.bytes);
  }
}

TEST_CASE("the peak is the most bytes in use at a time") {
  MemoryPool pool;
  CHECK(pool.peak_bytes() == 0);
  void* small = pool.allocate(1000);
  void* large = pool.allocate(2 * MiB);
  pool.deallocate(small, 1000);
  void* later = pool.allocate(500);
  CHECK(pool.peak_bytes() == 2 * MiB + 1000);
  pool.deallocate(large, 2 * MiB);
  pool.deallocate(later, 500);
  pool.trim();
  CHECK(pool.peak_bytes() == 2 * MiB + 1000);
  pool.deallocate(pool.allocate(3 * MiB), 3 * MiB);
  CHECK(pool.peak_bytes() == 3 * MiB);
}

TEST_CASE("free neighbours join, in whatever order they are freed") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed ", seed);
    MemoryPool pool;
    std::mt19937_64 random(seed);
    std::vector<Held> blocks;
    for (int i = 0; i < 200; ++i) {
      blocks.push_back(take(pool, 4097 + static_cast<Index>(random() % 300000), random));
    }
    std::shuffle(blocks.begin(), blocks.end(), random);
    for (const Held& held : blocks) pool.deallocate(held.data, held.bytes);
    const Index before = pool.system_bytes();
    const Index whole = before - 256;  // but for the marks of the range and the block's own
    void* block = pool.allocate(whole);
    CHECK(pool.system_bytes() == before);
    pool.deallocate(block, whole);
  }
}

TEST_CASE("a block is split for smaller ones") {
  MemoryPool pool;
  pool.deallocate(pool.allocate(20 * MiB), 20 * MiB);
  const Index before = pool.system_bytes();
  std::vector<void*> blocks;
  for (int i = 0; i < 19; ++i) blocks.push_back(pool.allocate(MiB));
  CHECK(pool.system_bytes() == before);
  for (void* block : blocks) pool.deallocate(block, MiB);
}

TEST_CASE("the lowest block that is large enough is taken") {
  MemoryPool pool;
  std::vector<void*> blocks;
  const std::vector<Index> sizes{1 * MiB, 3 * MiB, 2 * MiB, 2 * MiB};
  for (const Index bytes : sizes) {
    blocks.push_back(pool.allocate(bytes));
    blocks.push_back(pool.allocate(8192));  // keeps the neighbours apart
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) pool.deallocate(blocks[2 * i], sizes[i]);
  CHECK(pool.allocate(2 * MiB) == blocks[2]);
  CHECK(pool.allocate(2 * MiB) == blocks[4]);
  CHECK(pool.allocate(MiB) == blocks[0]);
}

TEST_CASE("many free blocks of one size") {
  MemoryPool pool;
  std::vector<void*> blocks;
  for (int i = 0; i < 20000; ++i) blocks.push_back(pool.allocate(5000));
  const Index before = pool.system_bytes();
  for (std::size_t i = 0; i < blocks.size(); i += 2) pool.deallocate(blocks[i], 5000);
  for (std::size_t i = 0; i < blocks.size(); i += 2) CHECK(pool.allocate(5000) == blocks[i]);
  for (void* block : blocks) pool.deallocate(block, 5000);
  CHECK(pool.system_bytes() == before);
}

TEST_CASE("memory that was given back counts again once it is used, and no sooner") {
  MemoryPool pool;
  pool.deallocate(pool.allocate(20 * MiB), 20 * MiB);
  const Index before = pool.system_bytes();
  pool.trim();
  const Index kept = pool.system_bytes();
  CHECK(kept < MiB);
  pool.trim();
  CHECK(pool.system_bytes() == kept);
  void* part = pool.allocate(MiB);
  CHECK(pool.system_bytes() >= MiB);
  CHECK(pool.system_bytes() <= kept + 2 * MiB);
  void* rest = pool.allocate(18 * MiB);
  CHECK(pool.system_bytes() >= 19 * MiB);
  CHECK(pool.system_bytes() <= before);
  pool.deallocate(part, MiB);
  pool.deallocate(rest, 18 * MiB);
  pool.trim();
  CHECK(pool.system_bytes() == kept);
}

TEST_CASE("threads share a pool") {
  MemoryPool pool(16 * MiB);
  std::vector<int> good(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < good.size(); ++i) {
    threads.emplace_back([&, i] { good[i] = exercise(pool, 100 + i, 3000); });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(good == std::vector<int>(4, 1));
}

TEST_CASE("what the system does not have is an error, and the pool goes on") {
  MemoryPool pool;
  const Index before = pool.system_bytes();
  for (const Index bytes : {Index{1} << 50, Index{1} << 62, std::numeric_limits<Index>::max()}) {
    CHECK_THROWS_WITH_AS(pool.allocate(bytes), doctest::Contains("the system has no memory for a block of "),
                         std::bad_alloc);
  }
  CHECK(pool.system_bytes() == before);
  CHECK(exercise(pool, 1, 1000));
}
