// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Root-mean-square normalisation of each row: y = weight · x / √(mean(x²) + eps) (Zhang and Sennrich, "Root
/// mean square layer normalization", 2019).

#include <algorithm>
#include <cmath>

#include <shardwise/kernel/fold.hpp>
#include <shardwise/kernel/scratch.hpp>

namespace shardwise::kernel {

namespace detail {
struct RmsNormRow;
struct RmsNormSums;
}  // namespace detail

/// x, y: [rows, cols]; weight: [cols]; scales: [rows], the 1/√(mean(x²) + eps) of each row, which the
/// backward pass needs. y may be x.
template <class T>
void rms_norm(Index rows, Index cols, const T* x, const T* weight, double eps, T* y, compute_t<T>* scales) {
  using C = compute_t<T>;
  const double count = static_cast<double>(std::max<Index>(cols, 1));
  for (Index r = 0; r < rows; ++r, x += cols, y += cols) {
    const C scale = static_cast<C>(1 / std::sqrt(sum_squares(cols, x) / count + eps));
    map(
        cols, y, [scale](C value, C factor) { return value * scale * factor; }, x, weight);
    scales[r] = scale;
  }
}

/// With x̂ = x · scale and g = dy · weight: dx = (g - x̂ · mean(g · x̂)) · scale, dweight = Σ_r dy · x̂. Either
/// may be null: not wanted. dx may be dy.
template <class T>
void rms_norm_backward(Index rows, Index cols, const T* x, const T* weight, const compute_t<T>* scales,
                       const T* dy, T* dx, T* dweight) {
  using C = compute_t<T>;
  const double count = static_cast<double>(std::max<Index>(cols, 1));
  C* normal = scratch<detail::RmsNormRow, C>(2 * cols);  // x̂
  C* g = normal + cols;
  C* weight_sum = scratch<detail::RmsNormSums, C>(cols);
  std::fill_n(weight_sum, cols, C{0});
  for (Index r = 0; r < rows; ++r, x += cols, dy += cols) {
    const C scale = scales[r];
    SHARDWISE_INDEPENDENT
    for (Index c = 0; c < cols; ++c) {
      const C value = widen(x[c]) * scale, gradient = widen(dy[c]);
      normal[c] = value;
      g[c] = gradient * widen(weight[c]);
      weight_sum[c] += gradient * value;
    }
    if (dx) {
      const C slope = static_cast<C>(dot(cols, g, normal) / count);
      map(
          cols, dx, [scale, slope](C gradient, C value) { return (gradient - value * slope) * scale; }, g,
          normal);
      dx += cols;
    }
  }
  for (Index c = 0; dweight && c < cols; ++c) dweight[c] = narrow<T>(weight_sum[c]);
}

}  // namespace shardwise::kernel
