// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A row times a matrix: y[n] = alpha · x[k] · op(B). Decoding a token is made of these. They are bound by
/// the reading of B, which is streamed through once, four rows at a time.

#include <cstring>

#include <shardwise/kernel/element.hpp>
#include <shardwise/kernel/fold.hpp>

namespace shardwise::kernel {

enum class Transpose : bool { no, yes };

namespace detail {

/// out[0..3] = x · b_r for four rows b_r, ldb apart.
template <class C>
void four_dots(Index k, const C* x, const C* b, Index ldb, C* out) {
  using Lane = typename Lanes<C>::type;
  constexpr Index width = Lanes<C>::count;
  const C* rows[4] = {b, b + ldb, b + 2 * ldb, b + 3 * ldb};
  Lane sums[4] = {}, p, q;
  Index i = 0;
  for (; i + width <= k; i += width) {
    std::memcpy(&p, x + i, sizeof p);
    std::memcpy(&q, rows[0] + i, sizeof q), sums[0] += p * q;
    std::memcpy(&q, rows[1] + i, sizeof q), sums[1] += p * q;
    std::memcpy(&q, rows[2] + i, sizeof q), sums[2] += p * q;
    std::memcpy(&q, rows[3] + i, sizeof q), sums[3] += p * q;
  }
  for (int r = 0; r < 4; ++r) {
    C total = 0;
    for (Index lane = 0; lane < width; ++lane) total += sums[r][lane];
    for (Index j = i; j < k; ++j) total += x[j] * rows[r][j];
    out[r] = total;
  }
}

struct GemvInput;

}  // namespace detail

/// y[j·incy] (+)= alpha · Σ_i x[i·incx] · op(B)[i, j], for j < n, i < k; B is stored [k, n], or [n, k] if
/// transposed.
template <class C>
void gemv(Transpose tb, Index n, Index k, const C* b, Index ldb, const C* x, Index incx, C* y, Index incy,
          bool accumulate, C alpha) {
  C* dense = scratch<detail::GemvInput, C>(k + 4);
  for (Index i = 0; i < k; ++i) dense[i] = alpha * x[i * incx];
  if (tb == Transpose::yes) {
    for (Index j = 0; j < n; j += 4) {
      C four[4] = {};
      const Index count = n - j < 4 ? n - j : 4;
      if (count == 4) {
        detail::four_dots(k, dense, b + j * ldb, ldb, four);
      } else {
        for (Index r = 0; r < count; ++r) {
          C same[4];
          detail::four_dots(k, dense, b + (j + r) * ldb, 0, same);
          four[r] = same[0];
        }
      }
      for (Index r = 0; r < count; ++r) y[(j + r) * incy] = (accumulate ? y[(j + r) * incy] : C{0}) + four[r];
    }
    return;
  }
  constexpr Index tile = 16384 / sizeof(C);  // of y, which stays in the first-level cache
  C part[tile];
  for (Index j = 0; j < n; j += tile) {
    const Index count = n - j < tile ? n - j : tile;
    for (Index c = 0; c < count; ++c) part[c] = accumulate ? y[(j + c) * incy] : C{0};
    Index i = 0;
    for (; i + 4 <= k; i += 4) {
      const C x0 = dense[i], x1 = dense[i + 1], x2 = dense[i + 2], x3 = dense[i + 3];
      const C *b0 = b + i * ldb + j, *b1 = b0 + ldb, *b2 = b1 + ldb, *b3 = b2 + ldb;
      SHARDWISE_INDEPENDENT
      for (Index c = 0; c < count; ++c) part[c] += (x0 * b0[c] + x1 * b1[c]) + (x2 * b2[c] + x3 * b3[c]);
    }
    for (; i < k; ++i) {
      const C* row = b + i * ldb + j;
      SHARDWISE_INDEPENDENT
      for (Index c = 0; c < count; ++c) part[c] += dense[i] * row[c];
    }
    for (Index c = 0; c < count; ++c) y[(j + c) * incy] = part[c];
  }
}

}  // namespace shardwise::kernel
