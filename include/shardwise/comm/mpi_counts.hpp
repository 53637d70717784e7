// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MPI counts in `int`, this library in `Index`: checked conversions.

#include <limits>
#include <numeric>

#include <shardwise/base/text.hpp>

namespace shardwise::detail {

/// Throws `std::length_error` if the count does not fit an `int`, `std::invalid_argument` if it is negative.
int mpi_count(Index count, const char* function);

inline Index sum_of(std::span<const Index> counts) {
  Index sum = 0;
  for (Index count : counts) sum += count;
  return sum;
}

std::vector<Index> offsets_of(std::span<const Index> counts);

/// Whether every rank has the same count and the blocks are contiguous.
inline bool uniform(std::span<const Index> counts, std::span<const Index> offsets) {
  Index next = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != counts[0] || offsets[i] != next) return false;
    next += counts[i];
  }
  return true;
}

#ifdef SHARDWISE_BODIES

SHARDWISE_INLINE int mpi_count(Index count, const char* function) {
  if (count < 0) fail({function, ": the count ", count, " is negative"});
  if (count > std::numeric_limits<int>::max())
    fail<std::length_error>(
        {function, ": ", count, " elements are more than MPI moves in one call (2147483647)"});
  return static_cast<int>(count);
}

SHARDWISE_INLINE std::vector<Index> offsets_of(std::span<const Index> counts) {
  std::vector<Index> offsets(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), Index{0});
  return offsets;
}

#endif

}  // namespace shardwise::detail
