// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Folding a run of numbers into one: sums, dot products, maxima. Eigen does it, whose order of additions takes several
/// vector registers. Long sums are cut into chunks that are added in `double`.
///
///     float m = max(n, x);  double s = sum_squares(n, x);  float xy = dot(n, x, y);

#include <algorithm>
#include <limits>

#include <shardwise/kernel/element.hpp>

namespace shardwise::kernel {

namespace detail {

template <class C>
using Run = Eigen::Map<const Eigen::Array<C, Eigen::Dynamic, 1>>;

/// Calls f(x, y) for successive chunks, as arrays of Eigen's, in which elements have been widened to `Wide`.
template <class Wide, class T, class F>
void chunks(Index n, const T* x, const T* y, F f) {
  if constexpr (std::is_same_v<T, Wide>) {
    constexpr Index size = 2048;
    for (Index i = 0; i < n; i += size) {
      const Index count = std::min(size, n - i);
      f(Run<Wide>(x + i, count), Run<Wide>(y + i, count));
    }
  } else {
    constexpr Index size = 512;
    Wide wide_x[size], wide_y[size];
    for (Index i = 0; i < n; i += size) {
      const Index count = std::min(size, n - i);
      for (Index j = 0; j < count; ++j) wide_x[j] = static_cast<Wide>(widen(x[i + j]));
      if (x != y) {
        for (Index j = 0; j < count; ++j) wide_y[j] = static_cast<Wide>(widen(y[i + j]));
      }
      f(Run<Wide>(wide_x, count), Run<Wide>(x == y ? wide_x : wide_y, count));
    }
  }
}

/// What is summed, of numbers or of arrays.
struct Itself {
  auto operator()(const auto& a, const auto&) const { return a; }
};
struct Square {
  auto operator()(const auto& a, const auto&) const { return a * a; }
};
struct Product {
  auto operator()(const auto& a, const auto& b) const { return a * b; }
};
template <class Wide, class T, class F>
double sum_of(Index n, const T* x, const T* y, F f) {
  double total = 0;
  chunks<Wide>(n, x, y, [&](const auto& a, const auto& b) { total += static_cast<double>(f(a, b).sum()); });
  return total;
}

}  // namespace detail

template <class T>
double sum(Index n, const T* x) {
  return detail::sum_of<compute_t<T>>(n, x, x, detail::Itself{});
}

template <class T>
double sum_squares(Index n, const T* x) {
  return detail::sum_of<compute_t<T>>(n, x, x, detail::Square{});
}

template <class T>
double dot(Index n, const T* x, const T* y) {
  return detail::sum_of<compute_t<T>>(n, x, y, detail::Product{});
}

/// The largest element, -∞ if there is none. NaN may or may not be seen.
template <class T>
compute_t<T> max(Index n, const T* x) {
  compute_t<T> result = -std::numeric_limits<compute_t<T>>::infinity();
  detail::chunks<compute_t<T>>(n, x, x,
                               [&](const auto& a, const auto&) { result = std::max(result, a.maxCoeff()); });
  return result;
}

}  // namespace shardwise::kernel
