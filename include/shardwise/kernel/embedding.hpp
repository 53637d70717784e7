// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Table lookup by ids, and its gradient. Blocks do not overlap.

#include <algorithm>

#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/arithmetic.hpp>

namespace shardwise::kernel {

/// y[i, :] = table[ids[i] - first, :]; ids: [count], of std::int32_t or std::int64_t; table: [rows, dim], the rows
/// [first, first + rows) of the whole table. A row of another process gives zeros, so that the sum over the
/// processes is the whole lookup.
template <class T, class Id>
void embedding(Index count, const Id* ids, Index first, Index rows, Index dim, const T* table, T* y) {
  for (Index i = 0; i < count; ++i, y += dim) {
    const Index row = static_cast<Index>(ids[i]) - first;
    if (row >= 0 && row < rows) {
      copy(dim, table + row * dim, y);
    } else {
      fill(dim, -0.0, y);  // which changes no bit of the sum
    }
  }
}

namespace detail {

struct EmbeddingOrder;
struct EmbeddingRow;

}  // namespace detail

/// dtable[ids[i] - first, :] += dy[i, :], in the order of i, for the ids of own rows. Rows of bfloat16 are
/// accumulated in float and rounded once, because frequent tokens are added often.
template <class T, class Id>
void embedding_backward(Index count, const Id* ids, Index first, Index rows, Index dim, const T* dy,
                        T* dtable) {
  const auto row_of = [=](Index i) { return static_cast<Index>(ids[i]) - first; };
  const auto owned = [=](Index i) { return row_of(i) >= 0 && row_of(i) < rows; };
  if constexpr (std::is_same_v<T, compute_t<T>>) {
    for (Index i = 0; i < count; ++i) {
      if (owned(i)) accumulate(dim, dy + i * dim, dtable + row_of(i) * dim);
    }
  } else {
    Index* order = scratch<detail::EmbeddingOrder, Index>(count);
    Index* const begin = order;
    Index* end = order;
    for (Index i = 0; i < count; ++i) {
      if (owned(i)) *end++ = i;
    }
    std::sort(begin, end, [=](Index a, Index b) { return ids[a] != ids[b] ? ids[a] < ids[b] : a < b; });
    auto* sum = scratch<detail::EmbeddingRow, compute_t<T>>(dim);
    while (order < end) {
      const Index row = row_of(*order);
      std::fill_n(sum, dim, compute_t<T>{0});
      accumulate_wide(dim, dtable + row * dim, sum);
      for (; order < end && row_of(*order) == row; ++order) accumulate_wide(dim, dy + *order * dim, sum);
      convert(dim, sum, dtable + row * dim);
    }
  }
}
SHARDWISE_COMPILE(embedding_backward<float, std::int32_t>)

/// The position of the first id outside [0, vocabulary), or -1.
template <class Id>
Index check_ids(Index count, const Id* ids, Index vocabulary) {
  for (Index i = 0; i < count; ++i) {
    if (ids[i] < 0 || static_cast<Index>(ids[i]) >= vocabulary) return i;
  }
  return -1;
}

}  // namespace shardwise::kernel
