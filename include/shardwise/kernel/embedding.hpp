// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Rows of a table by their ids, where this process owns the rows [first, first + rows) of a longer table. A
/// row of another process gives zeros, so that the sum over the processes is the whole lookup.

#include <cstdint>

#include <shardwise/kernel/arithmetic.hpp>

namespace shardwise::kernel {

/// y[i, :] = table[ids[i] - first, :], or 0; ids: [count], of std::int32_t or std::int64_t; table: [rows,
/// dim].
template <class T, class Id>
void embedding(Index count, const Id* ids, Index first, Index rows, Index dim, const T* table, T* y) {
  for (Index i = 0; i < count; ++i, y += dim) {
    const Index row = static_cast<Index>(ids[i]) - first;
    if (row >= 0 && row < rows) {
      copy(dim, table + row * dim, y);
    } else {
      fill(dim, 0, y);
    }
  }
}

/// dtable[ids[i] - first, :] += dy[i, :], in the order of i, for the ids of own rows.
template <class T, class Id>
void embedding_backward(Index count, const Id* ids, Index first, Index rows, Index dim, const T* dy,
                        T* dtable) {
  for (Index i = 0; i < count; ++i, dy += dim) {
    const Index row = static_cast<Index>(ids[i]) - first;
    if (row >= 0 && row < rows) accumulate(dim, dy, dtable + row * dim);
  }
}

/// The position of the first id outside [0, vocabulary), or -1.
template <class Id>
Index check_ids(Index count, const Id* ids, Index vocabulary) {
  for (Index i = 0; i < count; ++i) {
    if (ids[i] < 0 || static_cast<Index>(ids[i]) >= vocabulary) return i;
  }
  return -1;
}

}  // namespace shardwise::kernel
