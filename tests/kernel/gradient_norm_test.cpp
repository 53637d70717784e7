// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "shardwise/kernel/sums.hpp"

namespace {

using shardwise::Index;
namespace kernel = shardwise::kernel;

template <class T>
std::vector<T> small_integers(Index n) {
  std::vector<T> x;
  for (Index i = 0; i < n; ++i) x.push_back(static_cast<T>(static_cast<float>((i * 7) % 23 - 11)));
  return x;
}

}  // namespace

TEST_CASE_TEMPLATE("sums of squares and largest magnitudes", T, float, double, Eigen::bfloat16) {
  for (Index n : {0, 1, 2, 15, 511, 512, 513, 5000}) {
    const auto x = small_integers<T>(n);
    double squares = 0, largest = 0;
    for (T value : x) {
      squares += static_cast<double>(value) * static_cast<double>(value);
      largest = std::max(largest, std::abs(static_cast<double>(value)));
    }
    CHECK(kernel::sum_of_wide_squares(n, x.data()) == squares);  // all are integers
    CHECK(kernel::largest_magnitude(n, x.data()) == largest);
  }
}

TEST_CASE_TEMPLATE("NaN is found wherever it is, before infinity", T, float, double, Eigen::bfloat16) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr Index n = 1027;
  for (Index place : {0, 1, 600, 1026}) {
    for (float sign : {1.f, -1.f}) {
      auto x = small_integers<T>(n);
      const auto at = static_cast<std::size_t>(place);
      x[at] = static_cast<T>(sign * infinity);
      CHECK(kernel::largest_magnitude(n, x.data()) == static_cast<double>(infinity));
      CHECK(kernel::sum_of_wide_squares(n, x.data()) == static_cast<double>(infinity));
      x[n - 1 - at] = static_cast<T>(std::copysign(std::numeric_limits<float>::quiet_NaN(), sign));
      CHECK(std::isnan(kernel::largest_magnitude(n, x.data())));
      CHECK(std::isnan(kernel::sum_of_wide_squares(n, x.data())));
    }
  }
}

TEST_CASE_TEMPLATE("squares beyond the range of float", T, float, Eigen::bfloat16) {
  for (float size : {0x1p-120f, 0x1p120f}) {
    const std::vector<T> x(1000, static_cast<T>(size));
    const double one = static_cast<double>(size);
    CHECK(kernel::sum_of_wide_squares(1000, x.data()) == 1000 * one * one);
  }
}
