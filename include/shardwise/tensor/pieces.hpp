// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What each rank of a group has, where that is not a layout's business.

#include <shardwise/tensor/parts.hpp>

namespace shardwise::detail {

/// Counts and offsets of the pieces that go to, or come from, each rank of a group.
struct Pieces {
  std::vector<Index> counts, offsets;
  Index total = 0;

  constexpr void add(Index count) {
    counts.push_back(count);
    offsets.push_back(total);
    total += count;
  }
};

/// Rows of a tensor that the ranks of a group divide among them, in groups of rows: what each has read of a file.
/// `shift`: the ranks begin to count elsewhere, so that what is small goes to another one.
struct DividedRows {
  Range rows;
  Index group = 0;  ///< rows; 0: the ranks have what a layout gives them
  int shift = 0;

  constexpr AnyBox box(const AnyShape& shape, int members, int member) const {
    const Range groups = balanced_block((rows.size + group - 1) / group, members, (member + shift) % members);
    const Range own = intersection(rows, {rows.begin + groups.begin * group, groups.size * group});
    AnyBox box{{}, shape};
    box.begin[0] = own.begin;
    box.size[0] = own.size;
    return box;
  }
};

}  // namespace shardwise::detail
