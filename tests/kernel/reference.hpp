// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the tests of the kernels share: numbers to compute with, the distance of a result from the expected
/// one, and gradients by finite differences.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "shardwise/base/index.hpp"

namespace shardwise::testing {

using Vector = std::vector<double>;

inline std::size_t at(Index i) { return static_cast<std::size_t>(i); }

/// Numbers in [-bound, bound) without a pattern that a kernel could share.
template <class T = double>
std::vector<T> numbers(Index n, unsigned seed, double bound = 1) {
  std::minstd_rand engine(seed);
  std::uniform_real_distribution<double> uniform(-bound, bound);
  std::vector<T> result(at(n));
  for (T& x : result) x = static_cast<T>(uniform(engine));
  return result;
}

/// The largest difference, relative to the largest number; infinite if sizes differ or a difference is NaN.
template <class A, class B>
double distance(const std::vector<A>& a, const std::vector<B>& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double difference = 0, scale = 1e-300;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double p = static_cast<double>(a[i]), q = static_cast<double>(b[i]);
    if (!(std::abs(p - q) <= difference)) difference = std::abs(p - q);
    scale = std::max(scale, std::abs(q));
  }
  return difference / scale;
}

/// The gradient of Σ weight · f(x) by central differences.
template <class F>
Vector finite_differences(Vector x, const Vector& weight, F f) {
  const double step = 1e-5;
  Vector gradient(x.size());
  const auto value = [&] {
    const Vector y = f(x);
    double sum = 0;
    for (std::size_t j = 0; j < y.size(); ++j) sum += weight[j] * y[j];
    return sum;
  };
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double kept = x[i];
    x[i] = kept + step;
    const double above = value();
    x[i] = kept - step;
    gradient[i] = (above - value()) / (2 * step);
    x[i] = kept;
  }
  return gradient;
}

}  // namespace shardwise::testing
