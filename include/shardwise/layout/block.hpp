// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Blocks: the indices of a dimension, and the box of a tensor, that a rank owns.
///
/// Blocks are balanced: `n` indices over `p` ranks give blocks of ceil(n/p) or floor(n/p), the larger first.
/// 13 over 4 is 4, 3, 3, 3; 2 over 4 is 1, 1, 0, 0. Nothing is padded; empty blocks are ordinary.

#include <shardwise/base/index.hpp>
#include <shardwise/layout/layout.hpp>

namespace shardwise {

/// The half-open range [begin, begin + size).
struct Range {
  Index begin = 0;
  Index size = 0;
  constexpr Index end() const { return begin + size; }
  friend constexpr bool operator==(const Range&, const Range&) = default;
};

/// Block `part` of `extent` indices cut into `parts`.
constexpr Range balanced_block(Index extent, int parts, int part) {
  Index small = extent / parts;
  Index larger = extent % parts;
  Index begin = part * small + (part < larger ? part : larger);
  return {begin, small + (part < larger ? 1 : 0)};
}

/// The indices that both have; the size is 0 if there is none.
constexpr Range intersection(Range a, Range b) {
  Index begin = a.begin > b.begin ? a.begin : b.begin;
  Index end = a.end() < b.end() ? a.end() : b.end();
  return {begin, end > begin ? end - begin : 0};
}

/// A box of a tensor's index space, one range per dimension.
template <int Rank>
struct Box {
  Shape<Rank> begin{};
  Shape<Rank> size{};

  /// The range of a dimension, and the number of elements of the box.
  constexpr Range range(int dim) const { return {begin[dim], size[dim]}; }
  constexpr Index elements() const { return shardwise::elements(size); }
  friend constexpr bool operator==(const Box&, const Box&) = default;
};

/// The box of a tensor of global `shape` that the rank at `coordinates` holds. It makes few calls, because
/// compile-time planning evaluates it for every tensor.
template <int Rank>
[[gnu::noinline]] constexpr Box<Rank> local_box(const Shape<Rank>& shape, const Layout& layout,
                                                const MeshSizes& sizes, const MeshSizes& coordinates) {
  Box<Rank> box{{}, shape};
  for (int axis = 0; axis < layout.axes; ++axis) {
    const int dim = layout.placements.values[axis].code;
    if (dim < 0) continue;  // not sharded
    Index& size = box.size.values[dim];
    const Range block = balanced_block(size, sizes.values[axis], coordinates.values[axis]);
    box.begin.values[dim] += block.begin;
    size = block.size;
  }
  return box;
}

/// The indices that both boxes have; a size is 0 if there is none.
template <int Rank>
[[gnu::noinline]] constexpr Box<Rank> intersection(const Box<Rank>& a, const Box<Rank>& b) {
  Box<Rank> common;
  for (int dim = 0; dim < Rank; ++dim) {
    Range range = intersection(a.range(dim), b.range(dim));
    common.begin[dim] = range.begin;
    common.size[dim] = range.size;
  }
  return common;
}

}  // namespace shardwise
