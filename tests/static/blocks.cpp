// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Which indices a rank owns: balanced blocks, and blocks of blocks where two axes shard one dimension.

#include "shardwise/layout/block.hpp"

namespace shardwise {
namespace {

/// Are these the sizes of the blocks of `extent`, one after the other without gaps?
constexpr bool cut_into(Index extent, std::initializer_list<Index> sizes) {
  int parts = static_cast<int>(sizes.size()), part = 0;
  Index begin = 0;
  for (Index size : sizes) {
    if (balanced_block(extent, parts, part++) != Range{begin, size}) return false;
    begin += size;
  }
  return begin == extent;
}

static_assert(cut_into(13, {4, 3, 3, 3}));
static_assert(cut_into(14, {4, 4, 3, 3}));
static_assert(cut_into(12, {3, 3, 3, 3}));
static_assert(cut_into(2, {1, 1, 0, 0}));
static_assert(cut_into(0, {0, 0, 0}));
static_assert(cut_into(7, {7}));
static_assert(cut_into(5, {2, 2, 1}));
static_assert(balanced_block(13, 4, 2).begin == 7 && balanced_block(13, 4, 3).begin == 10);
static_assert(balanced_block(2, 4, 2) == Range{2, 0} && balanced_block(2, 4, 3) == Range{2, 0});

/// Whatever the numbers, blocks follow one another, differ by one at most, and the larger come first.
constexpr bool always_balanced() {
  for (Index extent = 0; extent <= 20; ++extent) {
    for (int parts = 1; parts <= 7; ++parts) {
      Index begin = 0, previous = extent / parts + 1;
      for (int part = 0; part < parts; ++part) {
        Range block = balanced_block(extent, parts, part);
        if (block.begin != begin || block.size > previous) return false;
        if (block.size != extent / parts && block.size != extent / parts + 1) return false;
        begin = block.end();
        previous = block.size;
      }
      if (begin != extent) return false;
    }
  }
  return true;
}
static_assert(always_balanced());

static_assert(balanced_block(Index{1} << 40, 3, 1) == Range{366503875926, 366503875925});

static_assert(intersection(Range{2, 5}, Range{4, 9}) == Range{4, 3});
static_assert(intersection(Range{2, 2}, Range{4, 3}).size == 0);
static_assert(intersection(Range{4, 3}, Range{0, 2}).size == 0);

// 18 rows on a 4×2 mesh, both axes on dimension 0: the left axis cuts first.
template <int Row, int Column>
constexpr Range nested() {
  using Matrix = Shape<2>;
  return local_box(Matrix{18, 3}, {shard(0), shard(0)}, {4, 2}, {Row, Column}).range(0);
}
static_assert(nested<0, 0>() == Range{0, 3} && nested<0, 1>() == Range{3, 2});
static_assert(nested<1, 0>() == Range{5, 3} && nested<1, 1>() == Range{8, 2});
static_assert(nested<2, 0>() == Range{10, 2} && nested<2, 1>() == Range{12, 2});
static_assert(nested<3, 0>() == Range{14, 2} && nested<3, 1>() == Range{16, 2});

using Matrix = Shape<2>;
using MatrixBox = Box<2>;

// 3×3 blocks on a 2×4 mesh: 6×12 when two dimensions are cut, 24×3 when one is cut twice.
static_assert(local_box(Matrix{6, 12}, {shard(0), shard(1)}, {2, 4}, {1, 2}) == MatrixBox{{3, 6}, {3, 3}});
static_assert(local_box(Matrix{24, 3}, {shard(0), shard(0)}, {2, 4}, {1, 2}) == MatrixBox{{18, 0}, {3, 3}});

// Only shards cut.
static_assert(local_box(Matrix{5, 3}, {replicate, partial_sum}, {2, 2}, {1, 1}) == MatrixBox{{0, 0}, {5, 3}});
static_assert(local_box(Matrix{5, 3}, {reduced, shard(1)}, {2, 2}, {1, 1}) == MatrixBox{{0, 2}, {5, 1}});
static_assert(local_box(Matrix{5, 3}, {shard(1), partial_max}, {2, 2}, {0, 1}) == MatrixBox{{0, 0}, {5, 2}});
static_assert(local_box(Matrix{1, 1}, {shard(0), shard(0)}, {2, 2}, {0, 1}).elements() == 0);

// Groups: the left axis varies slowest.
static_assert(group_size({4, 2, 3}, 3, 0b101u) == 12 && group_size({4, 2, 3}, 3, 0) == 1);
static_assert(group_rank({4, 2, 3}, {2, 1, 1}, 3, 0b101u) == 7);
static_assert(group_member({4, 2, 3}, {2, 1, 1}, 3, 0b101u, 7) == MeshSizes{2, 1, 1});
static_assert(group_member({4, 2, 3}, {0, 1, 0}, 3, 0b110u, 4) == MeshSizes{0, 1, 1});

/// Position and member are inverse to one another in every group of a 4×2×3 mesh.
constexpr bool groups_are_consistent() {
  constexpr MeshSizes sizes{4, 2, 3};
  for (AxisSet set = 0; set < 8; ++set) {
    for (int rank = 0; rank < 24; ++rank) {
      MeshSizes at = group_member(sizes, {}, 3, 7u, rank);
      if (group_rank(sizes, at, 3, 7u) != rank) return false;
      for (int i = 0; i < group_size(sizes, 3, set); ++i) {
        MeshSizes other = group_member(sizes, at, 3, set, i);
        if (group_rank(sizes, other, 3, set) != i) return false;
        for (int axis = 0; axis < 3; ++axis) {
          auto a = static_cast<std::size_t>(axis);
          if (!(set >> axis & 1u) && other[a] != at[a]) return false;
        }
      }
    }
  }
  return true;
}
static_assert(groups_are_consistent());

}  // namespace
}  // namespace shardwise
