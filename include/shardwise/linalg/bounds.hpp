// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The least communication that a matrix product needs, for assertions beside `CommunicationPlan::received_bytes()`:
///
/// ```
/// static_assert(plan.received_bytes() == sizeof(double) * gemm_lower_bound(m, n, k, 16));
/// ```

#include <algorithm>

#include <shardwise/base/index.hpp>

namespace shardwise {

namespace detail {

/// The `power`-th root of x ≥ 0, by Newton's method from above, so that a constant expression can take it.
constexpr double root(int power, double x) {
  double r = x > 1 ? x : 1;
  while (true) {
    double below = x;
    for (int i = 1; i < power; ++i) below /= r;
    const double next = r - (r - below) / power;
    if (!(next < r)) return r;
    r = next;
  }
}

}  // namespace detail

/// The elements that some rank must send or receive to multiply an m × k by a k × n matrix on P ranks, if each rank
/// does 1/P of the work, and each matrix lies once on all ranks together. It is tight. Al Daas, Ballard, Grigori,
/// Kumar, Rouse, "Tight memory-independent parallel matrix multiplication communication lower bounds", SPAA 2022,
/// theorem 3: the three cases are those of 1-D, 2-D and 3-D products.
constexpr double gemm_lower_bound(Index m, Index n, Index k, int ranks) {
  double d[] = {static_cast<double>(m), static_cast<double>(n), static_cast<double>(k)};
  std::sort(d, d + 3);
  const auto [least, middle, most] = d;
  const double P = ranks;
  if (P * middle <= most) return least * middle * (1 - 1 / P);
  if (P * least * least <= most * middle) {
    return 2 * least * detail::root(2, most * middle / P) - least * (most + middle) / P;
  }
  const double side = detail::root(3, least * middle * most / P);
  return 3 * side * side - (most * middle + most * least + middle * least) / P;
}

/// The same if a rank has memory for `memory` elements: also mnk / (2√2 P √memory) - memory. Irony, Toledo, Tiskin,
/// "Communication lower bounds for distributed-memory matrix multiplication", 2004.
constexpr double gemm_lower_bound(Index m, Index n, Index k, int ranks, Index memory) {
  const double words = static_cast<double>(memory);
  const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / ranks;
  return std::max(gemm_lower_bound(m, n, k, ranks), work / detail::root(2, 8 * words) - words);
}

}  // namespace shardwise
