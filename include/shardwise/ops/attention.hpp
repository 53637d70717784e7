// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `attention`: softmax(scale · q kᵀ) v for every head, by blocks, so that the matrix of scores never exists
/// (Dao, "FlashAttention-2", 2023). Batch and heads may be sharded; sequences and head_dim are whole.
///
/// ```
/// o = attention(q, k, v);                       // causal, scaled by 1/√head_dim
/// o = attention(q, k, v, {.causal = false});
/// ```
/// Grouped queries (Ainslie et al., "GQA", 2023): k and v may have fewer heads than q, each serving a group
/// of consecutive query heads. Along one axis heads lie in one of two ways:
///
/// | q          | k and v    | o          | each rank holds                                                  |
/// |------------|------------|------------|------------------------------------------------------------------|
/// | `Shard<2>` | `Shard<2>` | `Shard<2>` | heads and just the key/value heads that they use                 |
/// | `Shard<2>` | `Reduced`  | `Shard<2>` | heads and all key/value heads, whose gradients are pending sums  |
///
/// 8 heads and 2 key/value heads fit on 1 or 2 ranks in the first way, on any number in the second; on a mesh
/// <tp, kvr> of 2 x 4, q [`Shard<2>`, `Shard<2>`] with k and v [`Shard<2>`, `Reduced`] is both.

#include <shardwise/kernel/attention.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>
#include <shardwise/tensor/factories.hpp>

namespace shardwise {

struct AttentionOptions {
  bool causal = true;           ///< query i sees the keys up to i + keys - queries
  std::optional<double> scale;  ///< what scores are multiplied with; 1/√head_dim if not given
};

struct AttentionOp {
  AttentionOptions options;

  static constexpr Saved saved{.inputs = 0b111, .output = true};

  /// Queries and keys are both s, because neither may be cut; heads and key/value heads are both h, because
  /// they are cut alike.
  template <int Q, int K, int V>
  static constexpr Signature signature() {
    if (Q != 4 || K != 4 || V != 4) return {};
    return Signature::of("bshd", "bshd", "bshd", "bshd").whole('s').whole('d');
  }
  /// Where every rank holds all key/value heads k, these are an index of their own.
  template <int Q, int K, int V>
  static constexpr Propagated rule(const OperandPlacements& at) {
    constexpr Signature shared =
        Signature::of("bshd", "bskd", "bskd", "bshd").whole('s').whole('d').whole('k');
    const bool replicated = at[0].is_shard(2) && at[1].is_full() && at[2].is_full();
    return propagate(replicated ? shared : signature<Q, K, V>(), at);
  }

  static constexpr Shape<4> shape(const Shape<4>& q, const Shape<4>& k, const Shape<4>& v) {
    auto text = [&] { return detail::text({"q ", q, ", k ", k, ", v ", v}); };
    if (k != v) detail::fail({"attention: k and v differ in shape: ", text()});
    if (q[0] != k[0] || q[3] != k[3]) {
      detail::fail({"attention: batch or head_dim differ between q and k: ", text()});
    }
    if (k[2] == 0 ? q[2] != 0 : q[2] % k[2] != 0) {
      detail::fail(
          {"attention: ", q[2], " heads are not a multiple of ", k[2], " key/value heads: ", text()});
    }
    return q;
  }

  /// Two products forward; backward the scores, the gradient of the weights, and one for each gradient. Of a
  /// causal one only the pairs of a query and a key that it sees count.
  template <class O, class Q, class K, class V>
  constexpr std::int64_t flops(const O&, const Q& q, const K& k, const V&) const {
    const Index queries = q.extent(1, 2), keys = k.extent(1, 2), both = queries < keys ? queries : keys;
    const Index twice_the_pairs = options.causal ? both * (2 * keys - both) : 2 * queries * keys;
    return 2 * twice_the_pairs * q.extent(0, 1) * q.extent(2, 4);
  }
  template <class O, class Q, class K, class V>
  constexpr std::int64_t gradient_flops(unsigned wanted, const O& o, const Q& q, const K& k,
                                        const V& v) const {
    return flops(o, q, k, v) / 2 * (2 + std::popcount(wanted));
  }

  /// The logarithm of the sum of exponentials of each query's scores.
  template <class O, class T, class K, class V>
  static constexpr Index residual_bytes(const O&, const View<const T, 4>& q, const K&, const V&) {
    return q.extent(0, 3) * static_cast<Index>(sizeof(kernel::compute_t<T>));
  }

  template <class T>
  void forward(View<T, 4> o, void* lse, View<const T, 4> q, View<const T, 4> k, View<const T, 4> v) const {
    kernel::attention(extents(q, k), q.data, k.data, v.data, o.data, static_cast<kernel::compute_t<T>*>(lse));
  }

  template <class T>
  void pull_back(View<const T, 4> d_o, View<const T, 4> o, const void* lse, Input<T, 4> q, Input<T, 4> k,
                 Input<T, 4> v) const {
    kernel::attention_backward(extents<T>(q, k), q.data, k.data, v.data, o.data,
                               static_cast<const kernel::compute_t<T>*>(lse), d_o.data, q.gradient,
                               k.gradient, v.gradient);
  }

  /// q and k: blocks, which know the global numbers of their heads.
  template <class T>
  kernel::AttentionShape extents(const View<const T, 4>& q, const View<const T, 4>& k) const {
    const double scale = options.scale ? *options.scale : 1 / std::sqrt(static_cast<double>(q.size[3]));
    const Index group = k.shape[2] > 0 ? q.shape[2] / k.shape[2] : 1;
    return {q.size[0], q.size[1],      k.size[1], q.size[2], k.size[2],
            q.size[3], options.causal, scale,     group,     q.begin[2] - k.begin[2] * group};
  }
};

namespace detail {

/// The heads of a tensor that a rank at `at` holds: dimension `dim`.
constexpr Range heads_held(Index heads, const Layout& layout, int dim, const MeshSizes& sizes,
                           const MeshSizes& at) {
  Shape<4> shape{1, 1, 1, 1};
  shape[dim] = heads;
  return local_box(shape, layout, sizes, at).range(dim);
}

/// Throws `std::invalid_argument`, on every rank alike, unless each rank holds the key/value heads that its heads
/// use. Heads are dimension `dim` of tensors that lie as `q` and `k` say.
constexpr void check_heads(Index heads, Index kv_heads, const Layout& q, const Layout& k, int dim,
                           const MeshSizes& sizes, const char* const* names) {
  const AxisSet cutting = q.axes_sharding(dim);
  if (heads == kv_heads && k.axes_sharding(dim) == cutting) return;
  for (int m = 0; heads > 0 && m < group_size(sizes, q.axes, cutting); ++m) {
    const MeshSizes at = group_member(sizes, {}, q.axes, cutting, m);
    const Range own = heads_held(heads, q, dim, sizes, at), held = heads_held(kv_heads, k, dim, sizes, at);
    const Index group = heads / kv_heads, needed = own.begin / group,
                needed_end = (own.end() + group - 1) / group;
    if (own.size == 0 || (held.begin <= needed && needed_end <= held.end())) continue;
    std::string axes;
    for (int axis = 0; axis < q.axes; ++axis) {
      if (cutting >> axis & 1u) axes += text({axes.empty() ? "" : " x ", names[axis], " ", sizes[axis]});
    }
    const std::string rank = text({"rank ", m, " there has heads ", own.begin, " to ", own.end()});
    const std::string needs = text({"which need key/value heads ", needed, " to ", needed_end});
    const std::string has = text({"but it has ", held.begin, " to ", held.end()});
    const char* cure = "along a mesh axis of its own, to the right of those that shard them";
    fail({"attention: ", heads, " heads and ", kv_heads, " key/value heads do not fit on ", axes, ": ", rank,
          ", ", needs, ", ", has, "; replicate the key/value heads (Reduced) ", cure});
  }
}

}  // namespace detail

/// q: [batch, queries, heads, head_dim], k and v: [batch, keys, kv_heads, head_dim]; the result is as q.
/// Throws `std::invalid_argument`, on every rank, if the shapes do not fit or the heads cannot be shared out.
template <Operand Q, Operand K, Operand V, class Result = result_of<AttentionOp, Q, K, V>>
constexpr auto attention(const Q& q, const K& k, const V& v, const AttentionOptions& options = {}) {
  if constexpr (!AbstractOperand<Result>) {
    AttentionOp::shape(value_of(q).shape(), value_of(k).shape(), value_of(v).shape());
    detail::check_heads(value_of(q).shape()[2], value_of(k).shape()[2], tensor_of<Q>::layout,
                        tensor_of<K>::layout, 2, value_of(q).mesh().sizes(),
                        tensor_of<Q>::MeshOf::AxesOf::names.data());
  }
  return apply(AttentionOp{options}, q, k, v);
}
template <Operand Q, Operand K, Operand V, IllFormed Why = result_of<AttentionOp, Q, K, V>>
Why attention(const Q&, const K&, const V&, const AttentionOptions& = {});  // see Why

}  // namespace shardwise
