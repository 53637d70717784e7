// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Scaled dot-product attention o = softmax(scale · q · kᵀ) · v by blocks, after FlashAttention-2 (Dao, 2023): a
/// running maximum and sum of each query's scores are updated for each block of keys, and the backward pass
/// recomputes the scores from the saved logarithm of the sum. The matrix of scores is never stored; the working
/// memory is one block of it (two in the backward pass).

#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/arithmetic.hpp>
#include <shardwise/kernel/attention_blocks.hpp>
#include <shardwise/kernel/sums.hpp>

namespace shardwise::kernel {

namespace detail {

struct AttentionKeys;
struct AttentionQueries;

/// One block of queries against all its keys: writes o, and lse unless null.
template <class T>
void attend(const AttentionShape& s, const QueryBlock& block, const T* q, const Rows<compute_t<T>>& k,
            const Rows<compute_t<T>>& v, T* o, compute_t<T>* lse) {
  using C = compute_t<T>;
  const Index d = s.value_dim, width = padded<C>(d), query_width = padded<C>(s.head_dim), rows = block.rows(),
              lanes = padded<C>(rows), widest = std::max(width, query_width);
  C* columns = scratch<AttentionQueries, C>(query_block * (2 * widest + key_block));
  C *out = columns + query_block * widest, *scores = out + query_block * widest;
  C maximum[query_block], sum[query_block], fade[query_block];
  std::fill_n(maximum, lanes, -std::numeric_limits<C>::infinity());
  std::fill_n(sum, lanes, C{0});
  load_queries(s, block, s.head_dim, static_cast<C>(s.scale), q, columns, out);
  std::fill_n(out, rows * width, C{0});
  for (Index r = 0; r < rows; ++r) prefetch(d, o + block.offset(s, d, r));
  for (Index r = 0; s.adds && r < rows; ++r) {
    maximum[r] = lse[block.lse_offset(s, r)];
    if (maximum[r] == -std::numeric_limits<C>::infinity()) continue;
    sum[r] = 1;
    const T* row = o + block.offset(s, d, r);
    SHARDWISE_INDEPENDENT
    for (Index c = 0; c < d; ++c) out[r * width + c] = widen(row[c]);
  }
  const SeenKeys seen(s, block);
  for (Index first = seen.any.begin; first < seen.any.end(); first += key_block) {
    const Index cols = std::min(key_block, seen.any.end() - first);
    multiply_block<Transpose::no>(cols, lanes, s.head_dim, k.from(first), k.stride, columns, lanes, scores,
                                  lanes, false);
    cap(s, cols * lanes, scores);
    mask(seen, first, cols, lanes, scores);
    exponentiate(cols, lanes, scores, maximum, sum, fade);
    drop(s, block, first, cols, scores);
    for (Index r = 0; (s.adds || first > seen.any.begin) && r < rows; ++r)
      scale(width, fade[r], out + r * width, out + r * width);
    multiply_block<Transpose::yes>(rows, width, cols, scores, lanes, v.from(first), v.stride, out, width,
                                   true);
  }
  for (Index r = 0; r < rows; ++r) {
    const C factor = sum[r] == 0 ? C{0} : 1 / sum[r];  // o = 0, lse = -∞ for a query that sees no key
    T* row = o + block.offset(s, d, r);
    SHARDWISE_INDEPENDENT
    for (Index c = 0; c < d; ++c) row[c] = narrow<T>(factor * out[r * width + c]);
    if (lse) lse[block.lse_offset(s, r)] = maximum[r] + std::log(sum[r]);
  }
}

/// Destinations of gradients; null to skip one. Those of keys and values are of one head, and are added to.
template <class T>
struct AttentionGradients {
  T* q;
  compute_t<T>*k, *v;
};

/// One block of queries against all its keys: writes dq, adds to dk and dv.
template <class T>
void attend_backward(const AttentionShape& s, const QueryBlock& block, const T* q,
                     const Rows<compute_t<T>>& k, const Rows<compute_t<T>>& v, const T* o,
                     const compute_t<T>* lse, const T* d_o, const AttentionGradients<T>& gradient) {
  using C = compute_t<T>;
  constexpr auto no = Transpose::no, yes = Transpose::yes;
  const Index d = s.head_dim, width = padded<C>(d), value_dim = s.value_dim,
              value_width = padded<C>(value_dim), rows = block.rows(), lanes = padded<C>(rows);
  const Index block_size = query_block * std::max(width, value_width);
  C* q_columns = scratch<AttentionQueries, C>(5 * block_size + 3 * query_block * key_block);
  C *do_columns = q_columns + block_size, *q_rows = do_columns + block_size, *do_rows = q_rows + block_size,
    *dq = do_rows + block_size, *weights = dq + block_size, *slopes = weights + query_block * key_block,
    *cap_slopes = slopes + query_block * key_block;
  C shift[query_block] = {}, delta[query_block] = {};  // lse and Σ o · d_o of each query
  load_queries(s, block, d, static_cast<C>(s.scale), q, q_columns, q_rows);
  load_queries(s, block, value_dim, C{1}, d_o, do_columns, do_rows);
  for (Index r = 0; r < rows; ++r) {
    const Index at = block.offset(s, value_dim, r);
    const C log_sum = lse[block.lse_offset(s, r)];
    shift[r] = log_sum == -std::numeric_limits<C>::infinity() ? C{0} : log_sum;
    delta[r] = static_cast<C>(dot(value_dim, o + at, d_o + at));
    prefetch(value_dim, o + at + block.count * s.heads * value_dim);
    if (gradient.q) prefetch(d, gradient.q + block.offset(s, d, r));
  }
  std::fill_n(dq, rows * width, C{0});
  const SeenKeys seen(s, block);
  for (Index first = seen.any.begin; first < seen.any.end(); first += key_block) {
    const Index cols = std::min(key_block, seen.any.end() - first);
    multiply_block<no>(cols, lanes, d, k.from(first), k.stride, q_columns, lanes, weights, lanes, false);
    cap(s, cols * lanes, weights, cap_slopes);
    mask(seen, first, cols, lanes, weights);
    multiply_block<no>(cols, lanes, value_dim, v.from(first), v.stride, do_columns, lanes, slopes, lanes,
                       false);
    drop(s, block, first, cols, slopes);
    weights_and_slopes(cols, lanes, shift, delta, weights, slopes);
    if (s.softcap > 0) {
      for (Index i = 0; i < cols * lanes; ++i) slopes[i] *= cap_slopes[i];
    }
    if (gradient.v) {
      drop(s, block, first, cols, weights);
      multiply_block<no>(cols, value_width, rows, weights, lanes, do_rows, value_width,
                         gradient.v + first * value_width, value_width, true);
    }
    if (gradient.k) {
      multiply_block<no>(cols, width, rows, slopes, lanes, q_rows, width, gradient.k + first * width, width,
                         true);
    }
    if (gradient.q) {
      multiply_block<yes>(rows, width, cols, slopes, lanes, k.from(first), k.stride, dq, width, true);
    }
  }
  for (Index r = 0; gradient.q && r < rows; ++r) {
    leave_row(s, d, static_cast<C>(s.scale), dq + r * width, gradient.q + block.offset(s, d, r));
  }
}

}  // namespace detail

/// lse: [batch, heads, queries], the logarithm of the sum of the exponentials of a query's scores; -∞ for a query
/// that sees no key, whose o is 0. It may be null unless `s.adds`. Keys that only one block of queries reads are
/// read in place; others are packed.
template <class T>
void attention(const AttentionShape& s, const T* q, const T* k, const T* v, T* o, compute_t<T>* lse) {
  using C = compute_t<T>;
  const Index d = s.head_dim, value_dim = s.value_dim, width = detail::padded<C>(d),
              value_width = detail::padded<C>(value_dim);
  for (Index i = 0; i < s.batch * s.kv_heads; ++i) {
    const Index row = i / s.kv_heads * s.capacity * s.kv_heads + i % s.kv_heads;  // the first
    detail::Rows<C> keys{}, values{};
    if constexpr (std::is_same_v<T, C>) {
      if (width == d && value_width == value_dim && s.group * s.queries <= detail::query_block) {
        keys = {k + row * d, s.kv_heads * d};
        values = {v + row * value_dim, s.kv_heads * value_dim};
      }
    }
    detail::for_query_blocks(s, i / s.kv_heads, i % s.kv_heads, [&](const detail::QueryBlock& block) {
      if (!keys.data) {
        C* packed = scratch<detail::AttentionKeys, C>(s.keys * (width + value_width));
        keys = detail::pack_keys(s, d, k + row * d, packed);
        values = detail::pack_keys(s, value_dim, v + row * value_dim, packed + s.keys * width);
      }
      detail::attend(s, block, q, keys, values, o, lse);
    });
  }
}
SHARDWISE_COMPILE_EACH(attention)

/// Writes the gradients dq, dk and dv from the inputs, the outputs and the gradient d_o. o and lse are those over
/// all keys, even if k and v hold only some of them. Each of the three may be null to skip it. Key/value heads that
/// no head reads get zeros.
template <class T>
void attention_backward(const AttentionShape& s, const T* q, const T* k, const T* v, const T* o,
                        const compute_t<T>* lse, const T* d_o, T* dq, T* dk, T* dv) {
  using C = compute_t<T>;
  const Index d = s.head_dim, value_dim = s.value_dim, size = s.keys * detail::padded<C>(d),
              value_size = s.keys * detail::padded<C>(value_dim);
  C* packed = scratch<detail::AttentionKeys, C>(2 * (size + value_size));
  C *head_dk = packed + size + value_size, *head_dv = head_dk + size;
  for (Index i = 0; i < s.batch * s.kv_heads; ++i) {
    const Index row = i / s.kv_heads * s.capacity * s.kv_heads + i % s.kv_heads;  // the first
    const detail::Rows<C> keys = detail::pack_keys(s, d, k + row * d, packed),
                          values = detail::pack_keys(s, value_dim, v + row * value_dim, packed + size);
    std::fill_n(head_dk, size + value_size, C{0});
    detail::for_query_blocks(s, i / s.kv_heads, i % s.kv_heads, [&](const detail::QueryBlock& block) {
      detail::attend_backward(s, block, q, keys, values, o, lse, d_o,
                              {dq, dk ? head_dk : nullptr, dv ? head_dv : nullptr});
    });
    if (dk) detail::unpack_keys(s, d, head_dk, dk + row * d);
    if (dv) detail::unpack_keys(s, value_dim, head_dv, dv + row * value_dim);
  }
}
SHARDWISE_COMPILE_EACH(attention_backward)

}  // namespace shardwise::kernel
