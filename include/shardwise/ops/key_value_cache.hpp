// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `KeyValueCache`: the keys and values of all tokens so far, for decoding: each new token attends to them
/// without computing or copying them again.
///
/// ```
/// using Keys = Tensor<float, 4, Mesh<tp>, Shard<2>>;           // [batch, sequence, kv_heads, head_dim]
/// KeyValueCache<Keys> cache(mesh, batch, 2048, kv_heads, head_dim);
/// cache.append(k, v);                                          // keys and values of the new tokens
/// auto o = attention(q, cache);                                // queries of the same tokens
/// ```

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/attention.hpp>

namespace shardwise {

/// `K` is the type of the keys and of the values; each rank keeps its block in that layout. Any layout that `attention`
/// takes for keys is legal.
template <TensorType K>
class KeyValueCache {
 public:
  using Problem = result_of<AttentionOp, K, K, K>;
  using MeshOf = typename K::MeshOf;

  /// Room for `capacity` tokens of each sequence of the batch. Throws `std::invalid_argument` if an extent is
  /// negative. The values may have another head_dim.
  constexpr KeyValueCache(const MeshOf& mesh, Index batch, Index capacity, Index kv_heads, Index head_dim,
                          std::optional<Index> value_dim = {}) requires WellFormed<Problem>
      : keys_(mesh, {batch, capacity, kv_heads, head_dim}),
        values_(mesh, {batch, capacity, kv_heads, value_dim.value_or(head_dim)}) {}
  template <IllFormed Why = Problem>
  KeyValueCache(const MeshOf&, Index, Index, Index, Index, std::optional<Index> = {}) = delete;  // see Why

  /// Two caches cannot share blocks that both write to.
  KeyValueCache(const KeyValueCache&) = delete;
  KeyValueCache& operator=(const KeyValueCache&) = delete;
  constexpr KeyValueCache(KeyValueCache&&) noexcept = default;
  KeyValueCache& operator=(KeyValueCache&&) noexcept = default;

  /// Tokens in the cache, of each sequence.
  constexpr Index length() const { return length_; }
  constexpr Index capacity() const { return keys_.shape()[1]; }
  /// Forgets all tokens; the memory stays.
  constexpr void clear() { length_ = 0; }

  /// Adds tokens at the end; k, v: [batch, new tokens, kv_heads, head_dim]. Throws, on every rank and without
  /// a change, `std::invalid_argument` if the shapes do not fit, `std::length_error` if there is no room.
  constexpr void append(const K& k, const K& v) {
    const Shape<4>& x = k.shape();
    if (v.shape() != values_of(x[1]) || x != keys_of(x[1])) {
      detail::fail({"KeyValueCache: k is ", x, " and v ", v.shape(), ", but the cache takes ", keys_of(x[1]),
                    " and ", values_of(x[1])});
    }
    if (!(k.mesh() == keys_.mesh() && v.mesh() == keys_.mesh())) {
      throw std::invalid_argument("KeyValueCache: k or v lives on another mesh than the cache");
    }
    if (x[1] > capacity() - length_) {
      detail::fail<std::length_error>({"KeyValueCache: ", x[1], " more tokens do not fit: it holds ", length_,
                                       " of at most ", capacity()});
    }
    if (!k.mesh().dry()) {
      copy_in(k.view(), keys_.writable());
      copy_in(v.view(), values_.writable());
    }
    length_ += x[1];
  }

  /// Abstract operands add nothing.
  constexpr void append(const AbstractOperand auto&, const AbstractOperand auto&) {}

  /// The result of the function `attention(q, cache, options)`.
  template <TensorType Q>
  constexpr auto attend(const Q& q, const AttentionOptions& options) const {
    using T = typename K::Element;
    const Shape<4> shape = AttentionOp::shape(q.shape(), keys_of(length_), values_of(length_));
    detail::check_heads(q.shape()[2], keys_.shape()[2], Q::layout, K::layout, 2, q.mesh().sizes(),
                        K::MeshOf::AxesOf::names.data());
    if (!(q.mesh() == keys_.mesh())) {
      throw std::invalid_argument("attention: q lives on another mesh than the cache");
    }
    if (options.causal && q.shape()[1] > length_) {
      detail::fail({"attention: q has ", q.shape()[1], " tokens, but the cache only ", length_,
                    ": append their keys and values first"});
    }
    const AttentionOp op{options.checked()};
    result_of<AttentionOp, Q, K, K> o(q.mesh(), shape);
    View<const T, 4> k = keys_.view(), v = values_.view();
    k.size[1] = v.size[1] = length_;
    detail::count_work(q.mesh(), op.flops(o.view(), q.view(), k, v),
                       q.view().bytes() + k.bytes() + v.bytes() + o.view().bytes(), op.name);
    if (!q.mesh().dry()) {
      kernel::AttentionShape extents = op.extents(q.view(), k, shape[3]);
      extents.capacity = capacity();
      kernel::attention(extents, q.data(), keys_.data(), values_.data(), o.writable().data,
                        static_cast<kernel::compute_t<T>*>(nullptr));
    }
    return o;
  }

 private:
  constexpr Shape<4> keys_of(Index tokens) const { return of_tokens(keys_, tokens); }
  constexpr Shape<4> values_of(Index tokens) const { return of_tokens(values_, tokens); }
  static constexpr Shape<4> of_tokens(const K& all, Index tokens) {
    Shape<4> shape = all.shape();
    shape[1] = tokens;
    return shape;
  }
  template <class T>
  void copy_in(const View<const T, 4>& x, const View<T, 4>& all) const {
    const Index token = x.extent(2, 4), sequence = x.extent(1, 4);
    for (Index b = 0; b < x.size[0]; ++b) {
      kernel::copy(sequence, x.data + b * sequence, all.data + (b * all.size[1] + length_) * token);
    }
  }

  K keys_, values_;
  Index length_ = 0;
};

/// q: [batch, new tokens, heads, head_dim]. Its tokens are the last ones in the cache, and attend to the cached tokens.
/// The result is as q. Throws `std::invalid_argument`, on every rank, if the shapes do not fit, the heads cannot be
/// shared out, or q has more tokens than the cache though it is causal. Not for tapes.
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

}  // namespace shardwise
