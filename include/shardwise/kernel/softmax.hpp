// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Softmax along the middle extent of a block [outer, n, inner]: y = e^(x - m) / Σ e^(x - m) with m = max x,
/// so that nothing overflows. Elements of -∞ (masked ones) get 0; if all are -∞, all get 0, where a division
/// by the sum would give NaN. Where it is not along rows, these are made of the columns, and the other way round afterwards.

#include <shardwise/kernel/element.hpp>
#include <shardwise/kernel/elementary.hpp>
#include <shardwise/kernel/fold.hpp>
#include <shardwise/kernel/permute.hpp>

namespace shardwise::kernel {

namespace detail {

struct SoftmaxRow;
struct SoftmaxRows;

/// What a maximum is subtracted as: itself, but 0 if it is -∞.
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
  if (inner != 1) {
    T* rows = scratch<detail::SoftmaxRows, T>(n * inner);
    for (Index o = 0; o < outer; ++o, x += n * inner, y += n * inner) {
      transpose(n, inner, x, rows);
      softmax(inner, n, 1, rows, rows);
      transpose(inner, n, rows, y);
    }
    return;
  }
  C* e = scratch<detail::SoftmaxRow, C>(n);
  for (Index o = 0; o < outer; ++o, x += n, y += n) {
    const C total = detail::exp_row(n, x, detail::finite_maximum(max(n, x)), e);
    const C factor = total > 0 ? 1 / total : (total == 0 ? C{0} : total);
    for (Index k = 0; k < n; ++k) y[k] = narrow<T>(factor * e[k]);
  }
}

/// dx = y · (dy - Σ_k y·dy); dx may be dy.
template <class T>
void softmax_backward(Index outer, Index n, Index inner, const T* y, const T* dy, T* dx) {
  using C = compute_t<T>;
  if (inner != 1) {
    T *rows = scratch<detail::SoftmaxRows, T>(2 * n * inner), *slopes = rows + n * inner;
    for (Index o = 0; o < outer; ++o, y += n * inner, dy += n * inner, dx += n * inner) {
      transpose(n, inner, y, rows);
      transpose(n, inner, dy, slopes);
      softmax_backward(inner, n, 1, rows, slopes, slopes);
      transpose(inner, n, slopes, dx);
    }
    return;
  }
  for (Index o = 0; o < outer; ++o, y += n, dy += n, dx += n) {
    const C mean = static_cast<C>(dot(n, y, dy));
    map(
        n, dx, [mean](C value, C gradient) { return value * (gradient - mean); }, y, dy);
  }
}

}  // namespace shardwise::kernel
