// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Scaled dot-product attention o = softmax(scale · q · kᵀ) · v by blocks, after FlashAttention-2 (Dao,
/// 2023): the maximum and the sum of each row of scores are kept up to date while blocks of keys pass by, and
/// the backward pass computes the scores again from the saved logarithm of that sum. The matrix of scores
/// never exists; the working memory is one block of it (two in the backward pass) and a number per query.

#include <algorithm>
#include <cmath>
#include <limits>

#include "shardwise/kernel/arithmetic.hpp"
#include "shardwise/kernel/gemm.hpp"
#include "shardwise/kernel/scratch.hpp"
#include "shardwise/kernel/softmax.hpp"

namespace shardwise::kernel {

/// q, o: [batch, queries, heads, head_dim]; k, v: [batch, keys, kv_heads, head_dim]; `heads` is a multiple of
/// `kv_heads` (grouped queries: head h reads k and v of head h / (heads / kv_heads)). If `causal`, query i
/// sees the keys up to i + keys - queries: the last query sees all.
struct AttentionShape {
  Index batch, queries, keys, heads, kv_heads, head_dim;
  bool causal;
  double scale;  ///< usually 1/√head_dim
};

namespace detail {

inline constexpr Index query_block = 128, key_block = 128;

struct AttentionScores;
struct AttentionRows;
struct AttentionWide;

/// How many of the `count` keys from `first_key` on the query sees.
inline Index visible_keys(const AttentionShape& s, Index query, Index first_key, Index count) {
  if (!s.causal) return count;
  return std::clamp<Index>(query + s.keys - s.queries - first_key + 1, 0, count);
}

/// One block of queries of one head: rows of q and o are `q_stride` apart, of k and v `kv_stride`.
template <class C>
void attend(const AttentionShape& s, Index first_query, Index rows, const C* q, const C* k, const C* v, C* o,
            C* lse) {
  const Index d = s.head_dim, q_stride = s.heads * d, kv_stride = s.kv_heads * d;
  C* scores = scratch<AttentionScores, C>(query_block * key_block);
  C* sum_exp = scratch<AttentionRows, C>(query_block);
  std::fill_n(lse, rows, -std::numeric_limits<C>::infinity());  // the maximum so far, until the end
  std::fill_n(sum_exp, rows, C{0});
  for (Index r = 0; r < rows; ++r) std::fill_n(o + r * q_stride, d, C{0});
  for (Index first = 0; first < s.keys; first += key_block) {
    const Index cols = std::min(key_block, s.keys - first);
    if (visible_keys(s, first_query + rows - 1, first, cols) == 0) break;
    gemm(Transpose::no, Transpose::yes, rows, cols, d, q, q_stride, k + first * kv_stride, kv_stride, scores,
         cols, false, static_cast<C>(s.scale));
    for (Index r = 0; r < rows; ++r) {
      C* row = scores + r * cols;
      const Index seen = visible_keys(s, first_query + r, first, cols);
      const C maximum = std::max(lse[r], max(seen, row)), shift = finite_maximum(maximum);
      const C fade = exp(lse[r] - shift);
      sum_exp[r] = sum_exp[r] * fade + exp_row(seen, row, shift, row);
      std::fill(row + seen, row + cols, C{0});
      if (maximum != lse[r]) scale(d, fade, o + r * q_stride, o + r * q_stride);
      lse[r] = maximum;
    }
    gemm(Transpose::no, Transpose::no, rows, d, cols, scores, cols, v + first * kv_stride, kv_stride, o,
         q_stride, true);
  }
  for (Index r = 0; r < rows; ++r) {
    if (sum_exp[r] == 0) continue;  // sees no key: o = 0, lse = -∞
    scale(d, 1 / sum_exp[r], o + r * q_stride, o + r * q_stride);
    lse[r] += std::log(sum_exp[r]);
  }
}

/// A block of queries against a block of keys: adds to dq, dk and dv. `delta` is Σ o · d_o of each query.
template <class C>
void attend_backward(const AttentionShape& s, Index first_query, Index rows, Index first_key, Index cols,
                     const C* q, const C* k, const C* v, const C* lse, const C* delta, const C* d_o, C* dq,
                     C* dk, C* dv) {
  const Index d = s.head_dim, q_stride = s.heads * d, kv_stride = s.kv_heads * d;
  constexpr auto no = Transpose::no, yes = Transpose::yes;
  C* p = scratch<AttentionScores, C>(2 * query_block * key_block);
  C* dp = p + query_block * key_block;
  const C factor = static_cast<C>(s.scale);
  gemm(no, yes, rows, cols, d, q, q_stride, k, kv_stride, p, cols, false, factor);
  for (Index r = 0; r < rows; ++r) {
    C* row = p + r * cols;
    const Index seen = visible_keys(s, first_query + r, first_key, cols);
    const C shift = finite_maximum(lse[r]);
    map(
        seen, row, [shift](C score) { return exp(score - shift); }, row);
    std::fill(row + seen, row + cols, C{0});
  }
  gemm(yes, no, cols, d, rows, p, cols, d_o, q_stride, dv, kv_stride, true);
  gemm(no, yes, rows, cols, d, d_o, q_stride, v, kv_stride, dp, cols, false);
  for (Index r = 0; r < rows; ++r) {
    C* row = dp + r * cols;
    const C mean = delta[r];
    map(
        cols, row, [mean, factor](C gradient, C weight) { return weight * (gradient - mean) * factor; }, row,
        p + r * cols);
  }
  gemm(no, no, rows, d, cols, dp, cols, k, kv_stride, dq, q_stride, true);
  gemm(yes, no, cols, d, rows, dp, cols, q, q_stride, dk, kv_stride, true);
}

/// A float copy of n numbers.
template <class T>
compute_t<T>* widen_into(Index n, const T* x, compute_t<T>* y) {
  for (Index i = 0; i < n; ++i) y[i] = widen(x[i]);
  return y;
}

template <class T>
void narrow_into(Index n, const compute_t<T>* x, T* y) {
  for (Index i = 0; i < n; ++i) y[i] = narrow<T>(x[i]);
}

}  // namespace detail

/// lse: [batch, heads, queries], the logarithm of the sum of the exponentials of a query's scores; -∞ for a
/// query that sees no key, whose o is 0. bfloat16 is widened one batch item at a time.
template <class T>
void attention(const AttentionShape& s, const T* q, const T* k, const T* v, T* o, compute_t<T>* lse) {
  using C = compute_t<T>;
  const Index d = s.head_dim, q_size = s.queries * s.heads * d, kv_size = s.keys * s.kv_heads * d;
  if (s.heads == 0 || s.queries == 0) return;
  for (Index b = 0; b < s.batch; ++b, q += q_size, o += q_size, k += kv_size, v += kv_size) {
    if constexpr (!std::is_same_v<T, C>) {
      C* wide = scratch<detail::AttentionWide, C>(2 * (q_size + kv_size));
      AttentionShape one = s;
      one.batch = 1;
      C* wide_o = wide + q_size + 2 * kv_size;
      attention(one, detail::widen_into(q_size, q, wide), detail::widen_into(kv_size, k, wide + q_size),
                detail::widen_into(kv_size, v, wide + q_size + kv_size), wide_o,
                lse + b * s.heads * s.queries);
      detail::narrow_into(q_size, wide_o, o);
    } else {
      for (Index h = 0; h < s.heads; ++h) {
        const Index kv = h / (s.heads / s.kv_heads) * d;
        for (Index i = 0; i < s.queries; i += detail::query_block) {
          const Index at = (i * s.heads + h) * d;
          detail::attend(s, i, std::min(detail::query_block, s.queries - i), q + at, k + kv, v + kv, o + at,
                         lse + (b * s.heads + h) * s.queries + i);
        }
      }
    }
  }
}

/// The gradients of attention, written to dq, dk and dv, from its inputs and outputs and the gradient d_o.
template <class T>
void attention_backward(const AttentionShape& s, const T* q, const T* k, const T* v, const T* o,
                        const compute_t<T>* lse, const T* d_o, T* dq, T* dk, T* dv) {
  using C = compute_t<T>;
  const Index d = s.head_dim, q_size = s.queries * s.heads * d, kv_size = s.keys * s.kv_heads * d;
  if constexpr (!std::is_same_v<T, C>) {
    AttentionShape one = s;
    one.batch = 1;
    C* wide = scratch<detail::AttentionWide, C>(4 * (q_size + kv_size));
    C *wide_o = wide + q_size, *wide_do = wide_o + q_size, *wide_dq = wide_do + q_size,
      *wide_k = wide_dq + q_size;
    C *wide_v = wide_k + kv_size, *wide_dk = wide_v + kv_size, *wide_dv = wide_dk + kv_size;
    for (Index b = 0; b < s.batch; ++b) {
      const Index at = b * q_size, kv = b * kv_size;
      attention_backward(one, detail::widen_into(q_size, q + at, wide),
                         detail::widen_into(kv_size, k + kv, wide_k),
                         detail::widen_into(kv_size, v + kv, wide_v),
                         detail::widen_into(q_size, o + at, wide_o), lse + b * s.heads * s.queries,
                         detail::widen_into(q_size, d_o + at, wide_do), wide_dq, wide_dk, wide_dv);
      detail::narrow_into(q_size, wide_dq, dq + at);
      detail::narrow_into(kv_size, wide_dk, dk + kv);
      detail::narrow_into(kv_size, wide_dv, dv + kv);
    }
  } else {
    fill(s.batch * q_size, 0, dq);
    fill(s.batch * kv_size, 0, dk);
    fill(s.batch * kv_size, 0, dv);
    C* delta = scratch<detail::AttentionRows, C>(s.queries);
    for (Index bh = 0; bh < s.batch * s.heads; ++bh) {
      const Index b = bh / s.heads, h = bh % s.heads, head = b * q_size + h * d;
      const Index kv = b * kv_size + h / (s.heads / s.kv_heads) * d;
      for (Index i = 0; i < s.queries; ++i) {
        delta[i] = static_cast<C>(dot(d, o + head + i * s.heads * d, d_o + head + i * s.heads * d));
      }
      for (Index j = 0; j < s.keys; j += detail::key_block) {
        const Index cols = std::min(detail::key_block, s.keys - j), kv_at = kv + j * s.kv_heads * d;
        for (Index i = 0; i < s.queries; i += detail::query_block) {
          const Index rows = std::min(detail::query_block, s.queries - i), at = head + i * s.heads * d;
          if (detail::visible_keys(s, i + rows - 1, j, cols) == 0) continue;
          detail::attend_backward(s, i, rows, j, cols, q + at, k + kv_at, v + kv_at, lse + bh * s.queries + i,
                                  delta + i, d_o + at, dq + at, dk + kv_at, dv + kv_at);
        }
      }
    }
  }
}

}  // namespace shardwise::kernel
