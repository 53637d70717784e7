// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "shardwise/base/finite.hpp"
#include "shardwise/kernel/elementary.hpp"
#include "shardwise/kernel/sums.hpp"

namespace {

using namespace shardwise;

template <class C>
std::vector<C> no_numbers() {
  using Limits = std::numeric_limits<C>;
  return {Limits::quiet_NaN(), -Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()};
}
template <class C>
std::vector<C> extreme_numbers() {
  using Limits = std::numeric_limits<C>;
  return {C{0}, -C{0}, C{1}, Limits::max(), Limits::lowest(), Limits::min(), Limits::denorm_min()};
}

// Of numbers in memory, which the compiler does not know.
TEST_CASE_TEMPLATE("NaN and infinity are told from numbers", C, float, double) {
  std::vector<C> bad = no_numbers<C>(), good = extreme_numbers<C>();
  for (std::size_t i = 0; i < bad.size(); ++i) {
    CAPTURE(i);
    CHECK(detail::is_nan(bad[i]) == (i < 2));
    CHECK(detail::is_infinite(bad[i]) == (i >= 2));
    CHECK_FALSE(detail::is_finite(bad[i]));
  }
  for (C x : good) {
    CHECK_FALSE(detail::is_nan(x));
    CHECK_FALSE(detail::is_infinite(x));
    CHECK(detail::is_finite(x));
  }
  const auto found = kernel::count_non_finite(std::ssize(bad), bad.data());
  CHECK(found.nans == 2);
  CHECK(found.infinities == 2);
  CHECK(kernel::count_non_finite(std::ssize(good), good.data()).nans == 0);
  CHECK_FALSE(detail::is_nan(7));
  static_assert(!detail::is_finite(std::numeric_limits<C>::quiet_NaN()) && detail::is_finite(C{1}));
}

/// As a loop of vectors, and up to where e^x is too large.
template <class C>
double worst_of_exp(C low, C high) {
  const Index n = 20000;
  std::vector<C> x(n), y(n);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = low + (high - low) * static_cast<C>(i) / static_cast<C>(x.size() - 1);
  kernel::map(
      n, y.data(), [](C value) { return kernel::exp(value); }, x.data());
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    worst =
        std::max(worst, static_cast<double>(std::abs(y[i] / std::exp(static_cast<long double>(x[i])) - 1)));
  return worst / static_cast<double>(std::numeric_limits<C>::epsilon());
}

TEST_CASE("exp of many numbers, to the largest that has one") {
  CHECK(worst_of_exp<float>(-86.5F, 88.7F) < 3);
  CHECK(worst_of_exp<double>(-707, 709.7) < 3);
}

}  // namespace
