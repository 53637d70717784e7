// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Softmax along the middle extent of a block [outer, n, inner]: y = e^(x - m) / Σ e^(x - m) with m = max x, which
/// avoids overflow. Elements of -∞ (masked ones) get 0; if all are -∞, all get 0 rather than NaN.

#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/elementary.hpp>
#include <shardwise/kernel/reduce.hpp>

namespace shardwise::kernel {

namespace detail {

struct SoftmaxRow;

/// The maximum to subtract: 0 if it is -∞.
template <class C>
C finite_maximum(C maximum) {
  return maximum == -std::numeric_limits<C>::infinity() ? C{0} : maximum;
}

/// e[k] = e^(x[k] - maximum) for k < n; returns their sum.
template <class T>
compute_t<T> exp_row(Index n, const T* x, compute_t<T> maximum, compute_t<T>* e) {
  SHARDWISE_INDEPENDENT
  for (Index k = 0; k < n; ++k) e[k] = exp(widen(x[k]) - maximum);
  return static_cast<compute_t<T>>(sum(n, e));
}

}  // namespace detail

/// y may be x.
template <class T>
void softmax(Index outer, Index n, Index inner, const T* x, T* y) {
  using C = compute_t<T>;
  if (inner == 1) {
    C* e = scratch<detail::SoftmaxRow, C>(n);
    for (Index o = 0; o < outer; ++o, x += n, y += n) {
      const C total = detail::exp_row(n, x, detail::finite_maximum(max<false>(n, x)), e);
      const C factor = total > 0 ? 1 / total : (total == 0 ? C{0} : total);
      for (Index k = 0; k < n; ++k) y[k] = narrow<T>(factor * e[k]);
    }
    return;
  }
  C* e = scratch<detail::SoftmaxRow, C>(n * detail::column_tile);
  for (Index o = 0; o < outer; ++o, x += n * inner, y += n * inner) {
    detail::column_tiles(inner, [&](Index first, Index count) {
      C maximum[detail::column_tile], total[detail::column_tile];
      std::fill_n(maximum, count, -std::numeric_limits<C>::infinity());
      std::fill_n(total, count, C{0});
      for (Index k = 0; k < n; ++k) {
        const T* row = x + k * inner + first;
        for (Index c = 0; c < count; ++c)
          maximum[c] = widen(row[c]) > maximum[c] ? widen(row[c]) : maximum[c];
      }
      for (Index c = 0; c < count; ++c) maximum[c] = detail::finite_maximum(maximum[c]);
      for (Index k = 0; k < n; ++k) {
        const T* row = x + k * inner + first;
        C* out = e + k * count;
        SHARDWISE_INDEPENDENT
        for (Index c = 0; c < count; ++c) {
          out[c] = exp(widen(row[c]) - maximum[c]);
          total[c] += out[c];
        }
      }
      for (Index c = 0; c < count; ++c)
        total[c] = total[c] > 0 ? 1 / total[c] : (total[c] == 0 ? C{0} : total[c]);
      for (Index k = 0; k < n; ++k)
        map(
            count, y + k * inner + first, [](C p, C q) { return p * q; }, e + k * count, total);
    });
  }
}
SHARDWISE_COMPILE_EACH(softmax)

/// dx = y · (dy - Σ_k y·dy); dx may be dy.
template <class T>
void softmax_backward(Index outer, Index n, Index inner, const T* y, const T* dy, T* dx) {
  using C = compute_t<T>;
  for (Index o = 0; o < outer; ++o, y += n * inner, dy += n * inner, dx += n * inner) {
    if (inner == 1) {
      const C mean = static_cast<C>(dot(n, y, dy));
      map(
          n, dx, [mean](C value, C gradient) { return value * (gradient - mean); }, y, dy);
      continue;
    }
    detail::column_tiles(inner, [&](Index first, Index count) {
      C mean[detail::column_tile];
      std::fill_n(mean, count, C{0});
      for (Index k = 0; k < n; ++k) {
        const T *p = y + k * inner + first, *g = dy + k * inner + first;
        for (Index c = 0; c < count; ++c) mean[c] += widen(p[c]) * widen(g[c]);
      }
      for (Index k = 0; k < n; ++k) {
        const T *p = y + k * inner + first, *g = dy + k * inner + first;
        T* out = dx + k * inner + first;
        SHARDWISE_INDEPENDENT
        for (Index c = 0; c < count; ++c) out[c] = narrow<T>(widen(p[c]) * (widen(g[c]) - mean[c]));
      }
    });
  }
}
SHARDWISE_COMPILE_EACH(softmax_backward)

}  // namespace shardwise::kernel
