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

struct AttentionHead;
struct AttentionScores;

/// How many of the `count` keys from `first_key` on the query sees.
inline Index visible_keys(const AttentionShape& s, Index query, Index first_key, Index count) {
  if (!s.causal) return count;
  return std::clamp<Index>(query + s.keys - s.queries - first_key + 1, 0, count);
}

/// packed[r, :] = factor · rows[r, :], where rows are `stride` apart.
template <class T>
void load_rows(Index rows, Index d, Index stride, compute_t<T> factor, const T* x, compute_t<T>* packed) {
  for (Index r = 0; r < rows; ++r) {
    SHARDWISE_INDEPENDENT
    for (Index c = 0; c < d; ++c) packed[r * d + c] = factor * widen(x[r * stride + c]);
  }
}

/// The reverse: rows[r, :] = factor · packed[r, :].
template <class T>
void store_rows(Index rows, Index d, Index stride, compute_t<T> factor, const compute_t<T>* packed, T* x) {
  for (Index r = 0; r < rows; ++r) {
    SHARDWISE_INDEPENDENT
    for (Index c = 0; c < d; ++c) x[r * stride + c] = narrow<T>(factor * packed[r * d + c]);
  }
}

/// A block of queries (scaled) of one head against all its keys, all packed: writes o and lse.
template <class C>
void attend(const AttentionShape& s, Index first_query, Index rows, const C* q, const C* k, const C* v, C* o,
            C* lse) {
  const Index d = s.head_dim;
  C* scores = scratch<AttentionScores, C>(query_block * (key_block + 1));
  C* sum_exp = scores + query_block * key_block;
  std::fill_n(lse, rows, -std::numeric_limits<C>::infinity());  // the maximum so far, until the end
  std::fill_n(sum_exp, rows, C{0});
  std::fill_n(o, rows * d, C{0});
  for (Index first = 0; first < s.keys; first += key_block) {
    const Index cols = std::min(key_block, s.keys - first);
    if (visible_keys(s, first_query + rows - 1, first, cols) == 0) break;
    gemm(Transpose::no, Transpose::yes, rows, cols, d, q, d, k + first * d, d, scores, cols, false);
    for (Index r = 0; r < rows; ++r) {
      C* row = scores + r * cols;
      const Index seen = visible_keys(s, first_query + r, first, cols);
      const C maximum = std::max(lse[r], max(seen, row)), shift = finite_maximum(maximum);
      const C fade = exp(lse[r] - shift);
      sum_exp[r] = sum_exp[r] * fade + exp_row(seen, row, shift, row);
      std::fill(row + seen, row + cols, C{0});
      if (maximum != lse[r]) scale(d, fade, o + r * d, o + r * d);
      lse[r] = maximum;
    }
    gemm(Transpose::no, Transpose::no, rows, d, cols, scores, cols, v + first * d, d, o, d, true);
  }
  for (Index r = 0; r < rows; ++r) {
    if (sum_exp[r] == 0) continue;  // sees no key: o = 0, lse = -∞
    scale(d, 1 / sum_exp[r], o + r * d, o + r * d);
    lse[r] += std::log(sum_exp[r]);
  }
}

/// A block of queries (scaled) against a block of keys, all packed: adds to dq (of the scaled q), dk and dv.
/// `delta` is Σ o · d_o of each query.
template <class C>
void attend_backward(const AttentionShape& s, Index first_query, Index rows, Index first_key, Index cols,
                     const C* q, const C* k, const C* v, const C* lse, const C* delta, const C* d_o, C* dq,
                     C* dk, C* dv) {
  const Index d = s.head_dim;
  constexpr auto no = Transpose::no, yes = Transpose::yes;
  C* p = scratch<AttentionScores, C>(2 * query_block * key_block);
  C* dp = p + query_block * key_block;
  gemm(no, yes, rows, cols, d, q, d, k, d, p, cols, false);
  gemm(no, yes, rows, cols, d, d_o, d, v, d, dp, cols, false);
  for (Index r = 0; r < rows; ++r) {
    C *weights = p + r * cols, *gradients = dp + r * cols;
    const Index seen = visible_keys(s, first_query + r, first_key, cols);
    const C shift = finite_maximum(lse[r]), mean = delta[r];
    SHARDWISE_INDEPENDENT
    for (Index c = 0; c < seen; ++c) {
      const C weight = exp(weights[c] - shift);
      weights[c] = weight;
      gradients[c] = weight * (gradients[c] - mean);
    }
    std::fill(weights + seen, weights + cols, C{0});
    std::fill(gradients + seen, gradients + cols, C{0});
  }
  gemm(yes, no, cols, d, rows, p, cols, d_o, d, dv, d, true);
  gemm(no, no, rows, d, cols, dp, cols, k, d, dq, d, true);
  gemm(yes, no, cols, d, rows, dp, cols, q, d, dk, d, true);
}

}  // namespace detail

/// lse: [batch, heads, queries], the logarithm of the sum of the exponentials of a query's scores; -∞ for a
/// query that sees no key, whose o is 0.
template <class T>
void attention(const AttentionShape& s, const T* q, const T* k, const T* v, T* o, compute_t<T>* lse) {
  using C = compute_t<T>;
  const Index d = s.head_dim, q_stride = s.heads * d, kv_stride = s.kv_heads * d,
              block = detail::query_block * d;
  C* head_k = scratch<detail::AttentionHead, C>(2 * s.keys * d + 2 * block);
  C *head_v = head_k + s.keys * d, *block_q = head_v + s.keys * d, *block_o = block_q + block;
  for (Index kv = 0; kv < s.batch * s.kv_heads; ++kv) {
    const Index b = kv / s.kv_heads, group = s.heads / s.kv_heads,
                at_kv = b * s.keys * kv_stride + kv % s.kv_heads * d;
    detail::load_rows(s.keys, d, kv_stride, C{1}, k + at_kv, head_k);
    detail::load_rows(s.keys, d, kv_stride, C{1}, v + at_kv, head_v);
    for (Index h = kv % s.kv_heads * group; h < (kv % s.kv_heads + 1) * group; ++h) {
      for (Index i = 0; i < s.queries; i += detail::query_block) {
        const Index rows = std::min(detail::query_block, s.queries - i),
                    at = (b * s.queries + i) * q_stride + h * d;
        detail::load_rows(rows, d, q_stride, static_cast<C>(s.scale), q + at, block_q);
        detail::attend(s, i, rows, block_q, head_k, head_v, block_o, lse + (b * s.heads + h) * s.queries + i);
        detail::store_rows(rows, d, q_stride, C{1}, block_o, o + at);
      }
    }
  }
}

/// The gradients of attention, written to dq, dk and dv, from its inputs and outputs and the gradient d_o.
template <class T>
void attention_backward(const AttentionShape& s, const T* q, const T* k, const T* v, const T* o,
                        const compute_t<T>* lse, const T* d_o, T* dq, T* dk, T* dv) {
  using C = compute_t<T>;
  const Index d = s.head_dim, q_stride = s.heads * d, kv_stride = s.kv_heads * d;
  const Index q_size = s.queries * d, kv_size = s.keys * d;
  const C factor = static_cast<C>(s.scale);
  C* head_k = scratch<detail::AttentionHead, C>(4 * kv_size + 3 * q_size + s.queries);
  C *head_v = head_k + kv_size, *head_dk = head_v + kv_size, *head_dv = head_dk + kv_size;
  C *head_q = head_dv + kv_size, *head_do = head_q + q_size, *head_dq = head_do + q_size,
    *delta = head_dq + q_size;
  for (Index kv = 0; kv < s.batch * s.kv_heads; ++kv) {
    const Index b = kv / s.kv_heads, group = s.heads / s.kv_heads,
                at_kv = b * s.keys * kv_stride + kv % s.kv_heads * d;
    detail::load_rows(s.keys, d, kv_stride, C{1}, k + at_kv, head_k);
    detail::load_rows(s.keys, d, kv_stride, C{1}, v + at_kv, head_v);
    std::fill_n(head_dk, 2 * kv_size, C{0});
    for (Index h = kv % s.kv_heads * group; h < (kv % s.kv_heads + 1) * group; ++h) {
      const Index at = b * s.queries * q_stride + h * d;
      detail::load_rows(s.queries, d, q_stride, factor, q + at, head_q);
      detail::load_rows(s.queries, d, q_stride, C{1}, d_o + at, head_do);
      std::fill_n(head_dq, q_size, C{0});
      for (Index i = 0; i < s.queries; ++i) {
        delta[i] = static_cast<C>(dot(d, o + at + i * q_stride, d_o + at + i * q_stride));
      }
      for (Index j = 0; j < s.keys; j += detail::key_block) {
        const Index cols = std::min(detail::key_block, s.keys - j);
        for (Index i = 0; i < s.queries; i += detail::query_block) {
          const Index rows = std::min(detail::query_block, s.queries - i);
          if (detail::visible_keys(s, i + rows - 1, j, cols) == 0) continue;
          detail::attend_backward(s, i, rows, j, cols, head_q + i * d, head_k + j * d, head_v + j * d,
                                  lse + (b * s.heads + h) * s.queries + i, delta + i, head_do + i * d,
                                  head_dq + i * d, head_dk + j * d, head_dv + j * d);
        }
      }
      detail::store_rows(s.queries, d, q_stride, factor, head_dq, dq + at);
    }
    detail::store_rows(s.keys, d, kv_stride, C{1}, head_dk, dk + at_kv);
    detail::store_rows(s.keys, d, kv_stride, C{1}, head_dv, dv + at_kv);
  }
}

}  // namespace shardwise::kernel
