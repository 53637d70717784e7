// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Sums, dot products and maxima of a run of numbers. Long sums are split into chunks, which are added in `double`.
///
///     float m = max(n, x);  double s = sum_squares(n, x);  float xy = dot(n, x, y);

#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/elementary.hpp>
#include <shardwise/kernel/fold.hpp>

namespace shardwise::kernel {

namespace detail {

/// The term to sum, for `fold`.
struct Itself {
  void operator()(auto& term, const auto& a, const auto&) const { term = a; }
};
struct Square {
  void operator()(auto& term, const auto& a, const auto&) const { term = a * a; }
};
struct Product {
  void operator()(auto& term, const auto& a, const auto& b) const { term = a * b; }
};

/// Makes its first argument the larger one; `nan`: NaN if either is.
template <bool nan>
struct Larger {
  void operator()(auto& largest, const auto& term) const {
    largest = term > largest ? term : largest;  // a NaN stays, but none comes; it is not equal to itself
    if constexpr (nan) largest = term == term ? largest : term;  // NOLINT(misc-redundant-expression)
  }
};

template <class Wide, class T, class F>
double sum_of(Index n, const T* x, const T* y, F f) {
  double total = 0;
  chunks<Wide>(n, x, y, [&](Index count, const auto* a, const auto* b) {
    const auto join = [](auto& so_far, const auto& term) { so_far += term; };
    total += static_cast<double>(fold(count, Wide{0}, f, join, a, b));
  });
  return total;
}

}  // namespace detail

/// Σ x over `n` elements; below it, Σ x². Blocks of the sum are in the type of computation, their total in double.
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

/// Whether deviations from a rounded mean must be centred again, given the mean of their squares: see `rest_of_mean`.
inline bool is_far_from_zero(double mean, double squares) { return mean * mean > 1024 * squares; }

/// The part of the mean of x that rounding took from `mean`: the mean of x - mean, which are exact where all x are
/// close to it. Squares of (x - mean) - rest lose nothing, however far from 0 x is.
template <class T>
compute_t<T> rest_of_mean(Index n, const T* x, compute_t<T> mean) {
  const auto from_mean = [mean = static_cast<double>(mean)](auto& term, const auto& a, const auto&) {
    deviation(term, a, mean);
  };
  return static_cast<compute_t<T>>(detail::sum_of<double>(n, x, x, from_mean) / static_cast<double>(n));
}

/// The largest element, or -∞ without elements; NaN if any element is. `nan` false: any number if an element is NaN,
/// for sums that carry the NaN themselves.
template <bool nan = true, class T>
compute_t<T> max(Index n, const T* x) {
  compute_t<T> result = -std::numeric_limits<compute_t<T>>::infinity();
  detail::chunks<compute_t<T>>(n, x, x, [&](Index count, const auto* a, const auto* b) {
    result = detail::fold(count, result, detail::Itself{}, detail::Larger<nan>{}, a, b);
  });
  return result;
}

/// Σ x², with squares in `double`.
template <class T>
double sum_of_wide_squares(Index n, const T* x) {
  return detail::sum_of<double>(n, x, x, detail::Square{});
}
SHARDWISE_COMPILE_EACH(sum_of_wide_squares)

/// The largest |x|, or 0; NaN if any element is NaN. Without their signs, floating-point numbers have the same
/// order as their bits, with NaN above all.
template <class T>
double largest_magnitude(Index n, const T* x) {
  using C = compute_t<T>;
  auto largest = shardwise::detail::magnitude_bits(C{0});
  for (Index i = 0; i < n; ++i) largest = std::max(largest, shardwise::detail::magnitude_bits(widen(x[i])));
  return static_cast<double>(std::bit_cast<C>(largest));
}
SHARDWISE_COMPILE_EACH(largest_magnitude)

/// Numbers of elements.
struct NonFinite {
  std::int64_t nans = 0, infinities = 0;
};

/// The numbers of NaNs and infinities among `n` elements.
template <class T>
NonFinite count_non_finite(Index n, const T* x) {
  NonFinite found;
  for (Index i = 0; i < n; ++i) {
    const auto value = widen(x[i]);
    found.nans += shardwise::detail::is_nan(value);
    found.infinities += shardwise::detail::is_infinite(value);
  }
  return found;
}
SHARDWISE_COMPILE_EACH(count_non_finite)

}  // namespace shardwise::kernel
