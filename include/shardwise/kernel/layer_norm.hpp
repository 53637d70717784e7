// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Layer normalisation of each row: y = gamma · x̂ + beta, x̂ = (x - mean) / √(variance + eps), with the biased
/// variance, in two passes (Ba, Kiros and Hinton, "Layer normalization", 2016).

#include <algorithm>
#include <cmath>

#include <shardwise/kernel/fold.hpp>
#include <shardwise/kernel/scratch.hpp>

namespace shardwise::kernel {

namespace detail {
struct LayerNormRow;
struct LayerNormSums;
}  // namespace detail

/// x, y: [rows, cols]; gamma, beta: [cols]; stats: [rows, 2], the mean and 1/√(variance + eps) of each row,
/// which the backward pass needs. y may be x.
template <class T>
void layer_norm(Index rows, Index cols, const T* x, const T* gamma, const T* beta, compute_t<T> eps, T* y,
                compute_t<T>* stats) {
  using C = compute_t<T>;
  C* centred = scratch<detail::LayerNormRow, C>(cols);
  for (Index r = 0; r < rows; ++r, x += cols, y += cols, stats += 2) {
    const double count = static_cast<double>(std::max<Index>(cols, 1));
    const C mean = static_cast<C>(sum(cols, x) / count);
    for (Index c = 0; c < cols; ++c) centred[c] = widen(x[c]) - mean;
    const C scale =
        static_cast<C>(1 / std::sqrt(sum_squares(cols, centred) / count + static_cast<double>(eps)));
    SHARDWISE_INDEPENDENT
    for (Index c = 0; c < cols; ++c) y[c] = narrow<T>(centred[c] * scale * widen(gamma[c]) + widen(beta[c]));
    stats[0] = mean;
    stats[1] = scale;
  }
}

/// With g = dy · gamma: dx = (g - mean(g) - x̂ · mean(g · x̂)) / √(variance + eps), dgamma = Σ_r dy · x̂,
/// dbeta = Σ_r dy. Each of the three may be null: not wanted. dx may be dy.
template <class T>
void layer_norm_backward(Index rows, Index cols, const T* x, const T* gamma, const compute_t<T>* stats,
                         const T* dy, T* dx, T* dgamma, T* dbeta) {
  using C = compute_t<T>;
  C* normal = scratch<detail::LayerNormRow, C>(2 * cols);  // x̂
  C* g = normal + cols;
  C* gamma_sum = scratch<detail::LayerNormSums, C>(2 * cols);
  C* beta_sum = gamma_sum + cols;
  std::fill_n(gamma_sum, 2 * cols, C{0});
  for (Index r = 0; r < rows; ++r, x += cols, dy += cols, stats += 2) {
    const C mean = stats[0], scale = stats[1];
    SHARDWISE_INDEPENDENT
    for (Index c = 0; c < cols; ++c) {
      const C value = (widen(x[c]) - mean) * scale;
      normal[c] = value;
      g[c] = widen(dy[c]) * widen(gamma[c]);
    }
    if (dgamma || dbeta) {
      SHARDWISE_INDEPENDENT
      for (Index c = 0; c < cols; ++c) {
        gamma_sum[c] += widen(dy[c]) * normal[c];
        beta_sum[c] += widen(dy[c]);
      }
    }
    if (dx) {
      const double count = static_cast<double>(std::max<Index>(cols, 1));
      const C g_mean = static_cast<C>(sum(cols, g) / count),
              slope = static_cast<C>(dot(cols, g, normal) / count);
      SHARDWISE_INDEPENDENT
      for (Index c = 0; c < cols; ++c) dx[c] = narrow<T>((g[c] - g_mean - normal[c] * slope) * scale);
      dx += cols;
    }
  }
  for (Index c = 0; dgamma && c < cols; ++c) dgamma[c] = narrow<T>(gamma_sum[c]);
  for (Index c = 0; dbeta && c < cols; ++c) dbeta[c] = narrow<T>(beta_sum[c]);
}

}  // namespace shardwise::kernel
