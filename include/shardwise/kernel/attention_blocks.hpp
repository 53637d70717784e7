// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The blocks that attention works on: queries that read the same keys, and their scores.
///
/// A block of scores is stored as [keys, queries], so that a vector register holds one key against many queries:
/// maxima and sums over keys then need no horizontal operations, and the products no transposed keys. When there
/// are few queries, a block combines those of all heads that read the same keys.

#include <optional>

#include <shardwise/kernel/elementary.hpp>
#include <shardwise/kernel/random.hpp>
#include <shardwise/kernel/register_tile.hpp>
#include <shardwise/layout/block.hpp>

namespace shardwise::kernel {

/// Dropout of attention weights: the seed and the global index in [batch, heads, keys, queries] decide which are kept.
struct AttentionDropout {
  double p = 0;  ///< 0: no dropout
  std::uint64_t seed = 0;
  Index heads = 0, keys = 0, queries = 0;                  ///< of the whole tensors
  Index first_batch = 0, first_head = 0, first_query = 0;  ///< of this block within the whole tensors
};

/// q: [batch, queries, heads, head_dim]; k: [batch, capacity, kv_heads, head_dim], of which the first `keys` of each
/// sequence are read; v and o have value_dim numbers instead of head_dim. Head h reads key/value head (first_head + h)
/// / group (grouped queries); key/value heads that no head reads are legal.
///
/// Each query sees an interval of the keys. Query i is at position p = first_query + i, key j at first_key + j. If
/// `causal`, a query sees no key after p; with a window, none at a distance of `window` or more from p; with
/// `seen`, [batch, queries], none outside that range of positions.
struct AttentionShape {
  Index batch, queries, keys, heads, kv_heads, head_dim;
  bool causal;
  double scale;  ///< usually 1/√head_dim
  Index group = kv_heads > 0 ? heads / kv_heads : 1;
  Index first_head = 0;  ///< counted from the first head that reads key/value head 0
  Index capacity = keys;
  Index first_query = keys - queries;  ///< so that the last query is at the last key
  Index first_key = 0;
  std::optional<Index> window{};
  Index value_dim = head_dim;
  double softcap = 0;  ///< above 0: scores become softcap · tanh(score / softcap) (Gemma 2)
  const Range* seen = nullptr;
  AttentionDropout dropout{};
  bool adds = false;  ///< add the results for these keys to those already in o and lse, or in the gradients
};

/// The number of (query, key) pairs of a sequence in which the query sees the key.
constexpr Index visible_pairs(Index queries, Index keys, Index first_query, bool causal,
                              std::optional<Index> window) {
  // Σ clamp(position, 0, keys) over all positions before `end`
  const auto sum_before = [keys](Index end) {
    const Index inside = std::clamp<Index>(end, 0, keys);
    return inside * (inside - 1) / 2 + (end > keys ? (end - keys) * keys : 0);
  };
  const auto sum = [&](Index first) { return sum_before(first + queries) - sum_before(first); };
  const Index ends = causal ? sum(first_query + 1) : window ? sum(first_query + *window) : queries * keys;
  return ends - (window ? sum(first_query + 1 - *window) : 0);
}

namespace detail {

inline constexpr Index query_block = 32, key_block = 128;

/// Queries that read the same keys: `count` queries from `first` on, for each of `heads` heads from `head` on.
struct QueryBlock {
  Index batch, head, heads, first, count;

  Index rows() const { return heads * count; }
  Index query(Index row) const { return first + row % count; }
  /// Where the row begins in a tensor of heads with `d` numbers, such as q and o, and in lse.
  Index offset(const AttentionShape& s, Index d, Index row) const {
    return ((batch * s.queries + query(row)) * s.heads + head + row / count) * d;
  }
  Index lse_offset(const AttentionShape& s, Index row) const {
    return (batch * s.heads + head + row / count) * s.queries + query(row);
  }
  Range keys(const AttentionShape& s, Index row) const {
    const Index position = s.first_query + query(row);
    const Range all{s.first_key, s.keys};
    Index begin = 0, end = all.end();
    if (s.window) begin = position + 1 - *s.window, end = position + *s.window;
    if (s.causal) end = position + 1;
    Range seen = intersection(all, {begin, end - begin});
    if (s.seen) seen = intersection(seen, s.seen[batch * s.queries + query(row)]);
    seen.begin -= s.first_key;
    return seen;
  }
  /// Where blocks of keys begin: at the start of the queries' document, so that its bits do not depend on other
  /// documents.
  Index first_block(const AttentionShape& s) const {
    return s.seen ? s.seen[batch * s.queries + first].begin - s.first_key : 0;
  }
};

struct SeenKeys {
  Range row[query_block]{};
  Range
      any{};  ///< from the start of the block with the first key that any row sees, to the last key that one sees
  Range all{};  ///< the keys that all rows see

  SeenKeys(const AttentionShape& s, const QueryBlock& block) : all{0, s.keys} {
    Index begin = s.keys, end = 0;
    for (Index r = 0; r < block.rows(); ++r) {
      row[r] = block.keys(s, r);
      all = intersection(all, row[r]);
      if (row[r].size == 0) continue;
      begin = std::min(begin, row[r].begin);
      end = std::max(end, row[r].end());
    }
    if (begin >= end) return;
    begin = std::max<Index>(0, begin - (begin - block.first_block(s)) % key_block);
    any = {begin, end - begin};
  }
};

/// Calls f for each block of queries of one document that read key/value head `kv`.
template <class F>
void for_query_blocks(const AttentionShape& s, Index batch, Index kv, F f) {
  const Index begin = std::clamp<Index>(kv * s.group - s.first_head, 0, s.heads),
              end = std::clamp<Index>((kv + 1) * s.group - s.first_head, 0, s.heads),
              count = std::min(query_block, s.queries);
  if (count == 0) return;
  const Index together = query_block / count;
  const Range* const seen = s.seen ? s.seen + batch * s.queries : nullptr;
  for (Index head = begin; head < end; head += together) {
    for (Index i = 0, size = 0; i < s.queries; i += size) {
      size = std::min(count, s.queries - i);
      while (seen && seen[i + size - 1] != seen[i]) --size;
      f(QueryBlock{batch, head, std::min(together, end - head), i, size});
    }
  }
}

/// Rows of numbers, `stride` apart; up to `padded` numbers of each can be read.
template <class C>
struct Rows {
  const C* data;
  Index stride;
  const C* from(Index row) const { return data + row * stride; }
};

/// The keys or values of one head, packed; `d` is head_dim or value_dim.
template <class T>
Rows<compute_t<T>> pack_keys(const AttentionShape& s, Index d, const T* x, compute_t<T>* packed) {
  const Index width = padded<compute_t<T>>(d);
  for (Index r = 0; r < s.keys; ++r) {
    const T* row = x + r * s.kv_heads * d;
    prefetch(d, row + 16 * s.kv_heads * d);
    SHARDWISE_INDEPENDENT
    for (Index c = 0; c < d; ++c) packed[r * width + c] = widen(row[c]);
    std::fill(packed + r * width + d, packed + (r + 1) * width, compute_t<T>{0});
  }
  return {packed, width};
}

/// Writes a row of a gradient, or adds it to the existing one.
template <class T>
void leave_row(const AttentionShape& s, Index d, compute_t<T> factor, const compute_t<T>* row, T* to) {
  if (s.adds) {
    SHARDWISE_INDEPENDENT
    for (Index c = 0; c < d; ++c) to[c] = narrow<T>(widen(to[c]) + factor * row[c]);
  } else {
    SHARDWISE_INDEPENDENT
    for (Index c = 0; c < d; ++c) to[c] = narrow<T>(factor * row[c]);
  }
}

/// Writes the packed gradients of keys or values of one head.
template <class T>
void unpack_keys(const AttentionShape& s, Index d, const compute_t<T>* packed, T* x) {
  const Index width = padded<compute_t<T>>(d);
  for (Index r = 0; r < s.keys; ++r) {
    prefetch(d, x + (r + 16) * s.kv_heads * d);
    leave_row(s, d, compute_t<T>{1}, packed + r * width, x + r * s.kv_heads * d);
  }
}

/// factor · x of a block as rows [lanes, width], and transposed as [d, lanes].
template <class T>
void load_queries(const AttentionShape& s, const QueryBlock& block, Index d, compute_t<T> factor, const T* x,
                  compute_t<T>* columns, compute_t<T>* packed) {
  using C = compute_t<T>;
  const Index width = padded<C>(d), rows = block.rows(), lanes = padded<C>(rows);
  for (Index r = 0; r < rows; ++r) {
    const T* row = x + block.offset(s, d, r);
    C* to = packed + r * width;
    SHARDWISE_INDEPENDENT
    for (Index c = 0; c < d; ++c) to[c] = factor * widen(row[c]);
    std::fill(to + d, to + width, C{0});
    prefetch(d, row + block.count * s.heads * d);
  }
  std::fill(packed + rows * width, packed + lanes * width, C{0});
  transpose_block(lanes, width, packed, width, columns, lanes);
}

/// Caps `count` scores, if the shape says so; `slopes`, unless null, gets the derivatives.
template <class C>
void cap(const AttentionShape& s, Index count, C* scores, C* slopes = nullptr) {
  if (s.softcap == 0) return;
  const C most = static_cast<C>(s.softcap), factor = static_cast<C>(1 / s.softcap);
  SHARDWISE_INDEPENDENT
  for (Index i = 0; i < count; ++i) {
    const C share = tanh(scores[i] * factor);
    scores[i] = most * share;
    if (slopes) slopes[i] = 1 - share * share;
  }
}

/// Sets those scores [cols, lanes], of the keys from `first` on, that their query does not see to -∞.
template <class C>
void mask(const SeenKeys& seen, Index first, Index cols, Index lanes, C* scores) {
  const Index all_begin = std::clamp<Index>(seen.all.begin - first, 0, cols),
              all_end = std::clamp<Index>(seen.all.end() - first, all_begin, cols);
  if (all_end - all_begin == cols) return;
  C begin[query_block], end[query_block];
  for (Index c = 0; c < lanes; ++c) {
    begin[c] = static_cast<C>(std::clamp<Index>(seen.row[c].begin - first, 0, cols));
    end[c] = static_cast<C>(std::clamp<Index>(seen.row[c].end() - first, 0, cols));
  }
  for (Index j = all_begin > 0 ? 0 : all_end; j < cols; j = j + 1 == all_begin ? all_end : j + 1) {
    C* row = scores + j * lanes;
    const C key = static_cast<C>(j);
    SHARDWISE_INDEPENDENT
    for (Index c = 0; c < lanes; ++c) {
      row[c] = key >= begin[c] && key < end[c] ? row[c] : -std::numeric_limits<C>::infinity();
    }
  }
}

/// Drops some of the numbers [cols, lanes] of the keys from `first` on, and scales the others.
template <class C>
void drop(const AttentionShape& s, const QueryBlock& block, Index first, Index cols, C* numbers) {
  const AttentionDropout& d = s.dropout;
  if (d.p == 0) return;
  const Index lanes = padded<C>(block.rows());
  for (Index h = 0; h < block.heads; ++h) {
    const Index head = (d.first_batch + block.batch) * d.heads + d.first_head + block.head + h;
    for (Index j = 0; j < cols; ++j) {
      const Index index = (head * d.keys + s.first_key + first + j) * d.queries + d.first_query + block.first;
      C* run = numbers + j * lanes + h * block.count;
      dropout(block.count, d.p, d.seed, static_cast<std::uint64_t>(index), run, run);
    }
  }
}

/// Replaces scores [cols, lanes] by e^(score - maximum) and updates the running maximum and sum of each lane;
/// `fade` is the factor for what was summed before.
template <class C>
void exponentiate(Index cols, Index lanes, C* scores, C* maximum, C* sum, C* fade) {
  using Lane = typename Lanes<C>::type;
  constexpr Index width = Lanes<C>::count;
  for (Index lane = 0; lane < lanes; lane += width, scores += width) {
    Lane highest, score;
    std::memcpy(&highest, maximum + lane, sizeof highest);
    for (Index j = 0; j < cols; ++j) {
      std::memcpy(&score, scores + j * lanes, sizeof score);
      highest = score > highest ? score : highest;
    }
    C after[width], shift[width], total[width] = {};
    std::memcpy(after, &highest, sizeof after);
    for (Index c = 0; c < width; ++c) {
      shift[c] = after[c] == -std::numeric_limits<C>::infinity() ? C{0} : after[c];
      fade[lane + c] = exp(maximum[lane + c] - shift[c]);
      maximum[lane + c] = after[c];
    }
    for (Index j = 0; j < cols; ++j) {
      C* row = scores + j * lanes;
      SHARDWISE_INDEPENDENT
      for (Index c = 0; c < width; ++c) {
        row[c] = exp(row[c] - shift[c]);
        total[c] += row[c];
      }
    }
    for (Index c = 0; c < width; ++c) sum[lane + c] = sum[lane + c] * fade[lane + c] + total[c];
  }
}

/// Replaces weights [cols, lanes], which hold scores, by e^(score - shift), and slopes by weight · (slope - delta).
template <class C>
void weights_and_slopes(Index cols, Index lanes, const C* shift, const C* delta, C* weights, C* slopes) {
  constexpr Index width = Lanes<C>::count;
  for (Index lane = 0; lane < lanes; lane += width) {
    for (Index j = 0; j < cols; ++j) {
      C *weight = weights + j * lanes + lane, *slope = slopes + j * lanes + lane;
      SHARDWISE_INDEPENDENT
      for (Index c = 0; c < width; ++c) {
        weight[c] = exp(weight[c] - shift[lane + c]);
        slope[c] = weight[c] * (slope[c] - delta[lane + c]);
      }
    }
  }
}

}  // namespace detail

}  // namespace shardwise::kernel
