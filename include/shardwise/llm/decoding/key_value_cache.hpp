// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `KeyValueCache`: the keys and values of all tokens so far, for decoding: each new token attends to them
/// without computing or copying them again. Each row of its batch has a length of its own.
///
/// ```
/// using Keys = Tensor<float, 4, Mesh<tp>, Shard<2>>;           // [batch, sequence, kv_heads, head_dim]
/// KeyValueCache<Keys> cache(mesh, batch, 2048, kv_heads, head_dim);
/// cache.append(k, v);                                          // keys and values of the new tokens
/// auto o = attention(q, cache);                                // queries of the same tokens
/// cache.select(std::array<Index, 2>{3, 0});                    // next: q, k, v of two sequences, in rows 3 and 0
/// ```

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/attention.hpp>

namespace shardwise::llm {

/// The lengths of a cache's rows, and the rows that are selected: those of the sequences of a batch, in its order.
class CacheRows {
 public:
  /// Empty rows, all of which are selected. If the batch is `sharded`, they stay so.
  constexpr CacheRows(Index rows, Index capacity, bool sharded)
      : lengths_(static_cast<std::size_t>(std::max<Index>(rows, 0)), Index{0}),
        capacity_(capacity),
        sharded_(sharded) {
    select_all();
  }

  /// All rows, and the tokens for which each has room.
  constexpr Index rows() const { return std::ssize(lengths_); }
  constexpr Index capacity() const { return capacity_; }
  /// The tokens in a row.
  constexpr Index length(Index row = 0) const { return lengths_[checked(row)]; }
  /// The tokens in each selected row: the positions of the tokens that follow.
  constexpr std::vector<Index> positions() const {
    std::vector<Index> result;
    for (Index row : selected_) result.push_back(length(row));
    return result;
  }
  constexpr const std::vector<Index>& selected() const { return selected_; }

  /// Selects rows. Throws `std::invalid_argument`, without a change, if there are none, for a number that is not a
  /// row's, for a row that is named twice, and if the batch is sharded.
  constexpr void select(std::span<const Index> rows) {
    if (rows.empty()) throw std::invalid_argument("KeyValueCache: no row is selected");
    if (sharded_) {
      throw std::invalid_argument(
          "KeyValueCache: its batch is sharded over several ranks, so all rows belong to each call");
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      checked(rows[i]);
      for (std::size_t j = 0; j < i; ++j) {
        if (rows[j] == rows[i]) detail::fail({"KeyValueCache: row ", rows[i], " is selected twice"});
      }
    }
    selected_.assign(rows.begin(), rows.end());
  }
  constexpr void select_all() {
    selected_.clear();
    for (Index row = 0; row < rows(); ++row) selected_.push_back(row);
  }

  /// Forgets the tokens of all rows, or those of one except the first `kept`; the memory and the selection stay. Throws
  /// `std::invalid_argument` if there is no such row, or if it has fewer tokens.
  constexpr void clear() { std::fill(lengths_.begin(), lengths_.end(), 0); }
  constexpr void clear(Index row, Index kept = 0) {
    if (kept < 0 || kept > length(row))
      detail::fail({"KeyValueCache: row ", row, " cannot keep ", kept, " tokens of ", length(row)});
    lengths_[checked(row)] = kept;
  }

  /// Throws `std::length_error` unless each selected row has room for more tokens.
  constexpr void check_room(Index tokens) const {
    for (Index row : selected_) {
      if (tokens > capacity() - length(row)) {
        detail::fail<std::length_error>({"KeyValueCache: ", tokens, " more tokens do not fit: row ", row,
                                         " holds ", length(row), " of at most ", capacity()});
      }
    }
  }

  friend constexpr bool operator==(const CacheRows&, const CacheRows&) = default;

 protected:
  constexpr void lengthen(Index tokens) {
    for (Index row : selected_) lengths_[checked(row)] += tokens;
  }

 private:
  constexpr std::size_t checked(Index row) const {
    if (row < 0 || row >= rows()) detail::fail({"KeyValueCache: there is no row ", row, ": it has ", rows()});
    return static_cast<std::size_t>(row);
  }

  std::vector<Index> lengths_, selected_;
  Index capacity_;
  bool sharded_;
};

/// `K` is the type of the keys and of the values; each rank keeps its block in that layout. Any layout that `attention`
/// takes for keys is legal.
template <TensorType K>
class KeyValueCache : public CacheRows {
 public:
  using Problem = result_of<AttentionOp, K, K, K>;
  using MeshOf = typename K::MeshOf;

  /// Room for `capacity` tokens of each sequence of the batch. Throws `std::invalid_argument` if an extent is
  /// negative. The values may have another head_dim.
  constexpr KeyValueCache(const MeshOf& mesh, Index batch, Index capacity, Index kv_heads, Index head_dim,
                          std::optional<Index> value_dim = {}) requires WellFormed<Problem>
      : CacheRows(batch, capacity, shards_batch(mesh)),
        keys_(mesh, {batch, capacity, kv_heads, head_dim}),
        values_(mesh, {batch, capacity, kv_heads, value_dim.value_or(head_dim)}) {}
  template <IllFormed Why = Problem>
  KeyValueCache(const MeshOf&, Index, Index, Index, Index, std::optional<Index> = {}) = delete;  // see Why

  /// It can be moved, but not copied: two caches cannot share blocks that both write to.
  constexpr KeyValueCache(KeyValueCache&&) noexcept = default;
  KeyValueCache& operator=(KeyValueCache&&) noexcept = default;

  /// Whether several ranks share the rows.
  static constexpr bool shards_batch(const MeshOf& mesh) {
    return group_size(mesh.sizes(), K::layout.axes, K::layout.axes_sharding(0)) > 1;
  }

  /// Adds tokens at the end of the selected rows; k, v: [rows, new tokens, kv_heads, head_dim]. Throws, on every rank
  /// and without a change, `std::invalid_argument` if the shapes do not fit, `std::length_error` if there is no room.
  constexpr void append(const K& k, const K& v) {
    const Shape<4>& x = k.shape();
    if (v.shape() != of_tokens(values_, x[1]) || x != of_tokens(keys_, x[1])) {
      detail::fail({"KeyValueCache: k is ", x, " and v ", v.shape(), ", but the cache takes ",
                    of_tokens(keys_, x[1]), " and ", of_tokens(values_, x[1])});
    }
    if (!(k.mesh() == keys_.mesh() && v.mesh() == keys_.mesh())) {
      throw std::invalid_argument("KeyValueCache: k or v lives on another mesh than the cache");
    }
    check_room(x[1]);
    if (!k.mesh().dry()) {
      copy_in(k.view(), keys_.writable());
      copy_in(v.view(), values_.writable());
    }
    lengthen(x[1]);
  }

  /// Abstract operands add nothing.
  constexpr void append(const AbstractOperand auto&, const AbstractOperand auto&) {}

  /// The result of the function `attention(q, cache, options)`.
  template <TensorType Q>
  constexpr auto attend(const Q& q, const AttentionOptions& options) const {
    using T = typename K::Element;
    const Shape<4> shape = AttentionOp::shape(q.shape(), of_tokens(keys_, 0), of_tokens(values_, 0));
    detail::check_heads(q.shape()[2], keys_.shape()[2], Q::layout, K::layout, 2, q.mesh().sizes(),
                        K::MeshOf::AxesOf::names.data());
    if (!(q.mesh() == keys_.mesh())) {
      throw std::invalid_argument("attention: q lives on another mesh than the cache");
    }
    for (Index row : selected()) {
      if (options.causal && q.shape()[1] > length(row)) {
        detail::fail({"attention: q has ", q.shape()[1], " tokens, but row ", row, " of the cache only ",
                      length(row), ": append their keys and values first"});
      }
    }
    const AttentionOp op{options.checked()};
    result_of<AttentionOp, Q, K, K> o(q.mesh(), shape);
    View<const T, 4> queries = q.view(), out = o.view(), k = keys_.view(), v = values_.view();
    const Index sequences = queries.size[0], keys_of_row = k.extent(1, 4), values_of_row = v.extent(1, 4);
    queries.size[0] = out.size[0] = k.size[0] = v.size[0] = 1;
    std::int64_t flops = 0, bytes = 0;
    for (Index i = 0; i < sequences; ++i) {
      const Index row = row_of(queries.begin[0] + i);
      k.size[1] = v.size[1] = length(row);
      flops += op.flops(out, queries, k, v);
      bytes += queries.bytes() + k.bytes() + v.bytes() + out.bytes();
      if (q.mesh().dry()) continue;
      kernel::AttentionShape extents = op.extents(queries, k, shape[3]);
      extents.capacity = capacity();
      const Index block = row - k.begin[0];
      kernel::attention(extents, q.data() + i * queries.elements(), keys_.data() + block * keys_of_row,
                        values_.data() + block * values_of_row, o.writable().data + i * out.elements(),
                        static_cast<kernel::compute_t<T>*>(nullptr));
    }
    detail::count_work(q.mesh(), flops, bytes, op.name);
    return o;
  }

 private:
  /// The row of a sequence of the batch.
  constexpr Index row_of(Index sequence) const { return selected()[static_cast<std::size_t>(sequence)]; }
  constexpr Shape<4> of_tokens(const K& all, Index tokens) const {
    return {std::ssize(selected()), tokens, all.shape()[2], all.shape()[3]};
  }
  template <class T>
  void copy_in(const View<const T, 4>& x, const View<T, 4>& all) const {
    const Index token = x.extent(2, 4), sequence = x.extent(1, 4);
    for (Index i = 0; i < x.size[0]; ++i) {
      const Index row = row_of(x.begin[0] + i);
      kernel::copy(sequence, x.data + i * sequence,
                   all.data + ((row - all.begin[0]) * all.size[1] + length(row)) * token);
    }
  }

  K keys_, values_;
};

/// q: [rows, new tokens, heads, head_dim], of the selected rows. Its tokens are the last ones of their row, and attend
/// to those in it. The result is as q; that of a row does not depend on the others, to the bit. Throws
/// `std::invalid_argument`, on every rank, if the shapes do not fit, the heads cannot be shared out, or q has more
/// tokens than a row though it is causal. Not for tapes.
template <Operand Q, TensorType K, class Result = result_of<AttentionOp, Q, K, K>>
constexpr auto attention(const Q& q, const KeyValueCache<K>& cache, const AttentionOptions& options = {}) {
  if constexpr (AbstractOperand<Q>) {
    return Result();
  } else {
    return cache.attend(q, options);
  }
}
template <Operand Q, TensorType K, IllFormed Why = result_of<AttentionOp, Q, K, K>>
Why attention(const Q&, const KeyValueCache<K>&, const AttentionOptions& = {});  // see Why

}  // namespace shardwise::llm
