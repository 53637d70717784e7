// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Normalisation of each row, as y = gamma · x̂ + beta with
///   - layer normalisation: x̂ = (x - mean) / √(variance + eps), with the biased variance, in two passes (Ba, Kiros and
///     Hinton, "Layer normalization", 2016);
///   - root-mean-square normalisation: x̂ = x / √(mean(x²) + eps), without beta (Zhang and Sennrich, "Root mean square
///     layer normalization", 2019).

#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/sums.hpp>

namespace shardwise::kernel {

namespace detail {

struct NormalRow;

inline double count_of(Index cols) { return static_cast<double>(std::max<Index>(cols, 1)); }

/// The backward pass of both. `centred`: a mean in two parts was subtracted, and precedes the scale in `stats`.
template <bool centred, class T>
void normalise_backward(Index rows, Index cols, const T* x, const T* gamma, compute_t<T> offset,
                        const compute_t<T>* stats, const T* dy, T* dx, T* dgamma, T* dbeta) {
  using C = compute_t<T>;
  C* normal = scratch<NormalRow, C>(4 * cols);  // x̂
  C *g = normal + cols, *gamma_sum = g + cols, *beta_sum = gamma_sum + cols;
  std::fill_n(gamma_sum, 2 * cols, C{0});
  for (Index r = 0; r < rows; ++r, x += cols, dy += cols) {
    const C mean = centred ? *stats++ : C{0}, rest = centred ? *stats++ : C{0}, scale = *stats++;
    SHARDWISE_INDEPENDENT
    for (Index c = 0; c < cols; ++c) {
      C off;
      deviation(off, widen(x[c]), mean, rest);
      const C value = off * scale, gradient = widen(dy[c]);
      normal[c] = value;
      g[c] = gradient * (offset + widen(gamma[c]));
      gamma_sum[c] += gradient * value;
      if constexpr (centred) beta_sum[c] += gradient;
    }
    if (dx) {
      const C g_mean = centred ? static_cast<C>(sum(cols, g) / count_of(cols)) : C{0},
              slope = static_cast<C>(dot(cols, g, normal) / count_of(cols));
      map(
          cols, dx, [=](C gradient, C value) { return (gradient - g_mean - value * slope) * scale; }, g,
          normal);
      dx += cols;
    }
  }
  for (Index c = 0; dgamma && c < cols; ++c) dgamma[c] = narrow<T>(gamma_sum[c]);
  for (Index c = 0; dbeta && c < cols; ++c) dbeta[c] = narrow<T>(beta_sum[c]);
}

}  // namespace detail

/// x, y: [rows, cols]; gamma, beta: [cols]; stats: [rows, 3], the rounded mean, what it lacks, and
/// 1/√(variance + eps) of each row, which the backward pass needs. y may be x.
template <class T>
void layer_norm(Index rows, Index cols, const T* x, const T* gamma, const T* beta, compute_t<T> eps, T* y,
                compute_t<T>* stats) {
  using C = compute_t<T>;
  C* centred = scratch<detail::NormalRow, C>(cols);
  const double count = detail::count_of(cols);
  for (Index r = 0; r < rows; ++r, x += cols, y += cols, stats += 3) {
    const C mean = static_cast<C>(sum(cols, x) / count);
    for (Index c = 0; c < cols; ++c) deviation(centred[c], widen(x[c]), mean);
    C rest = 0;
    double squares = sum_squares(cols, centred) / count;
    if (is_far_from_zero(static_cast<double>(mean), squares)) {
      rest = rest_of_mean(cols, centred, C{0});
      for (Index c = 0; c < cols; ++c) centred[c] -= rest;
      squares = sum_squares(cols, centred) / count;
    }
    const C scale = static_cast<C>(1 / std::sqrt(squares + static_cast<double>(eps)));
    SHARDWISE_INDEPENDENT
    for (Index c = 0; c < cols; ++c) y[c] = narrow<T>(centred[c] * scale * widen(gamma[c]) + widen(beta[c]));
    stats[0] = mean;
    stats[1] = rest;
    stats[2] = scale;
  }
}
SHARDWISE_COMPILE_EACH(layer_norm)

/// With g = dy · gamma: dx = (g - mean(g) - x̂ · mean(g · x̂)) / √(variance + eps), dgamma = Σ_r dy · x̂, dbeta =
/// Σ_r dy. Each of the three may be null to skip it. dx may be dy.
template <class T>
void layer_norm_backward(Index rows, Index cols, const T* x, const T* gamma, const compute_t<T>* stats,
                         const T* dy, T* dx, T* dgamma, T* dbeta) {
  detail::normalise_backward<true>(rows, cols, x, gamma, compute_t<T>{0}, stats, dy, dx, dgamma, dbeta);
}
SHARDWISE_COMPILE_EACH(layer_norm_backward)

/// x, y: [rows, cols]; weight: [cols], gamma without the `offset`; scales: [rows], the 1/√(mean(x²) + eps) of each row,
/// which the backward pass needs. y may be x.
template <class T>
void rms_norm(Index rows, Index cols, const T* x, const T* weight, double eps, double offset, T* y,
              compute_t<T>* scales) {
  using C = compute_t<T>;
  const C plus = static_cast<C>(offset);
  for (Index r = 0; r < rows; ++r, x += cols, y += cols) {
    const C scale = static_cast<C>(1 / std::sqrt(sum_squares(cols, x) / detail::count_of(cols) + eps));
    map(
        cols, y, [=](C value, C factor) { return value * scale * (plus + factor); }, x, weight);
    scales[r] = scale;
  }
}
SHARDWISE_COMPILE_EACH(rms_norm)

/// With g = dy · (offset + weight): dx = (g - x̂ · mean(g · x̂)) · scale, dweight = Σ_r dy · x̂. Either may be null to
/// skip it. dx may be dy.
template <class T>
void rms_norm_backward(Index rows, Index cols, const T* x, const T* weight, double offset,
                       const compute_t<T>* scales, const T* dy, T* dx, T* dweight) {
  detail::normalise_backward<false>(rows, cols, x, weight, static_cast<compute_t<T>>(offset), scales, dy, dx,
                                    dweight, static_cast<T*>(nullptr));
}
SHARDWISE_COMPILE_EACH(rms_norm_backward)

}  // namespace shardwise::kernel
