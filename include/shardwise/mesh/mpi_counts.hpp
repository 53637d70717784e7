// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MPI counts in `int`, this library in `Index`. Here the one becomes the other: checked, never wrapped.

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <numeric>

#include <shardwise/layout/text.hpp>

namespace shardwise::detail {

/// Throws `std::length_error` for what does not fit, `std::invalid_argument` for a negative count.
inline int mpi_count(Index count, const char* function) {
  if (count < 0) fail({function, ": the count ", count, " is negative"});
  if (count > std::numeric_limits<int>::max())
    fail<std::length_error>(
        {function, ": ", count, " elements are more than MPI moves in one call (2147483647)"});
  return static_cast<int>(count);
}

inline Index sum_of(std::span<const Index> counts) {
  Index sum = 0;
  for (Index count : counts) sum += count;
  return sum;
}

/// Where blocks of these sizes begin that lie one after another.
inline std::vector<Index> offsets_of(std::span<const Index> counts) {
  std::vector<Index> offsets(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), Index{0});
  return offsets;
}

/// Several lists of ints, one a rank, in one piece of memory: without an allocation for up to 64 ranks and
/// four lists.
class MpiCounts {
 public:
  MpiCounts(int lists, int ranks) : ranks_(static_cast<std::size_t>(ranks)) {
    const std::size_t needed = static_cast<std::size_t>(lists) * ranks_;
    if (needed > small_.size()) large_ = std::make_unique<int[]>(needed);
  }

  /// Fills list `list`, with as many as there are ranks; throws where a value is negative or too large.
  void fill(int list, std::span<const Index> values, const char* function) {
    int* target = (*this)[list];
    for (const Index value : values) *target++ = mpi_count(value, function);
  }

  int* operator[](int list) {
    return (large_ ? large_.get() : small_.data()) + static_cast<std::size_t>(list) * ranks_;
  }

 private:
  std::array<int, 256> small_;
  std::unique_ptr<int[]> large_;
  std::size_t ranks_;
};

/// Whether every rank has the same count and the blocks follow one another.
inline bool uniform(std::span<const Index> counts, std::span<const Index> offsets) {
  Index next = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != counts[0] || offsets[i] != next) return false;
    next += counts[i];
  }
  return true;
}

}  // namespace shardwise::detail
