// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Medians and other quantiles of measurements.

#include <algorithm>
#include <vector>

namespace benchmarks {

/// The number below which the given share of the numbers lies; `median` is `quantile` of one half.
inline double quantile(std::vector<double> numbers, double share) {
  const auto place = static_cast<std::ptrdiff_t>(share * static_cast<double>(numbers.size() - 1) + 0.5);
  std::nth_element(numbers.begin(), numbers.begin() + place, numbers.end());
  return numbers[static_cast<std::size_t>(place)];
}
inline double median(const std::vector<double>& numbers) { return quantile(numbers, 0.5); }

}  // namespace benchmarks
