// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The largest elements of rows.

#include <algorithm>

#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/element.hpp>

namespace shardwise::kernel {

namespace detail {

struct TopKValues;
struct TopKGroups;
struct TopKTaken;

/// The index of the largest element that is not taken, which it then is. Of equal ones it is the first; NaN is the largest.
template <class C>
Index take_largest(Index n, const C* x, bool* taken) {
  Index best = -1;
  for (Index i = 0; i < n; ++i) {
    if (taken[i] || (best >= 0 && !(x[i] > x[best] || (x[i] != x[i] && x[best] == x[best])))) continue;
    best = i;
  }
  taken[best] = true;
  return best;
}

}  // namespace detail

/// ids[r, :]: the indices of the k largest of the n elements of row r, the largest first. With `groups` runs of n / groups
/// elements, they are from the `kept` groups in which the two largest elements have the largest sums.
template <class T, class Id>
void top_k(Index rows, Index n, Index k, Index groups, Index kept, const T* x, Id* ids) {
  using C = compute_t<T>;
  const Index size = n / groups;
  C *const values = scratch<detail::TopKValues, C>(n), *const sums = scratch<detail::TopKGroups, C>(groups);
  bool* const taken = scratch<detail::TopKTaken, bool>(n + groups);
  bool* const kept_group = taken + n;
  for (Index r = 0; r < rows; ++r, x += n, ids += k) {
    for (Index i = 0; i < n; ++i) values[i] = widen(x[i]);
    std::fill_n(taken, n + groups, false);
    if (kept < groups) {
      for (Index g = 0; g < groups; ++g) {
        const C* const group = values + g * size;
        sums[g] = group[detail::take_largest(size, group, taken + g * size)];
        if (size > 1) sums[g] += group[detail::take_largest(size, group, taken + g * size)];
      }
      for (Index i = 0; i < kept; ++i) detail::take_largest(groups, sums, kept_group);
      for (Index i = 0; i < n; ++i) taken[i] = !kept_group[i / size];
    }
    for (Index j = 0; j < k; ++j) ids[j] = static_cast<Id>(detail::take_largest(n, values, taken));
  }
}
SHARDWISE_COMPILE(top_k<float, std::int64_t>)

}  // namespace shardwise::kernel
