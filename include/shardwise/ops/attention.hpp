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
/// of consecutive query heads. Heads and key/value heads are sharded alike, and every rank must hold just the
/// key/value heads that its heads use: 8 heads and 2 key/value heads fit on 1 or 2 ranks, not on 4.

#include <cmath>
#include <optional>

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

  static constexpr Shape<4> shape(const Shape<4>& q, const Shape<4>& k, const Shape<4>& v) {
    auto text = [&] {
      return "q " + detail::to_string(q) + ", k " + detail::to_string(k) + ", v " + detail::to_string(v);
    };
    if (k != v) throw std::invalid_argument("attention: k and v differ in shape: " + text());
    if (q[0] != k[0] || q[3] != k[3]) {
      throw std::invalid_argument("attention: batch or head_dim differ between q and k: " + text());
    }
    if (k[2] == 0 ? q[2] != 0 : q[2] % k[2] != 0) {
      throw std::invalid_argument("attention: " + std::to_string(q[2]) + " heads are not a multiple of " +
                                  std::to_string(k[2]) + " key/value heads: " + text());
    }
    return q;
  }

  /// Two products forward, five backward; half of each is masked away if causal.
  template <class O, class Q, class K, class V>
  constexpr std::int64_t flops(const O&, const Q& q, const K& k, const V&) const {
    return (options.causal ? 2 : 4) * q.elements() * k.extent(1, 2);
  }
  template <class O, class Q, class K, class V>
  constexpr std::int64_t gradient_flops(int, const O& o, const Q& q, const K& k, const V& v) const {
    return flops(o, q, k, v) / 2 * 5;
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
    struct UnwantedQ;
    struct UnwantedK;
    struct UnwantedV;
    kernel::attention_backward(extents<T>(q, k), q.data, k.data, v.data, o.data,
                               static_cast<const kernel::compute_t<T>*>(lse), d_o.data, target<UnwantedQ>(q),
                               target<UnwantedK>(k), target<UnwantedV>(v));
  }

 private:
  template <class T>
  kernel::AttentionShape extents(const View<const T, 4>& q, const View<const T, 4>& k) const {
    double scale = options.scale ? *options.scale : 1 / std::sqrt(static_cast<double>(q.size[3]));
    return {q.size[0], q.size[1], k.size[1], q.size[2], k.size[2], q.size[3], options.causal, scale};
  }
  /// The kernel computes all three gradients.
  template <class Unwanted, class T>
  static T* target(const Input<T, 4>& x) {
    return x.gradient ? x.gradient : kernel::scratch<Unwanted, T>(x.elements());
  }
};

namespace detail {

/// Throws, on every rank alike, unless each rank holds the key/value heads of its own heads and no others.
template <TensorType Q>
constexpr void check_heads(const Q& q, Index heads, Index kv_heads) {
  AxisSet cutting = 0;
  for (int axis = 0; axis < Q::layout.axes; ++axis) {
    if (Q::layout[axis].is_shard(2)) cutting |= 1u << axis;
  }
  const MeshSizes& sizes = q.mesh().sizes();
  const int members = group_size(sizes, Q::layout.axes, cutting);
  for (int m = 0; heads != kv_heads && members > 1 && m < members; ++m) {
    MeshSizes at = group_member(sizes, {}, Q::layout.axes, cutting, m);
    Range own = local_box(Shape<4>{1, 1, heads, 1}, Q::layout, sizes, at).range(2);
    Range keys = local_box(Shape<4>{1, 1, kv_heads, 1}, Q::layout, sizes, at).range(2);
    const Index group = heads / kv_heads;
    if (own == Range{keys.begin * group, keys.size * group} || (own.size == 0 && keys.size == 0)) continue;
    std::string axes;
    for (int axis = 0; axis < Q::layout.axes; ++axis) {
      if (cutting >> axis & 1u) {
        axes += (axes.empty() ? "" : " x ") +
                std::string(Q::MeshOf::AxesOf::names[static_cast<std::size_t>(axis)]) + " " +
                std::to_string(sizes[static_cast<std::size_t>(axis)]);
      }
    }
    throw std::invalid_argument(
        "attention: " + std::to_string(heads) + " heads and " + std::to_string(kv_heads) +
        " key/value heads do not fit on " + axes + ": rank " + std::to_string(m) + " there has heads " +
        std::to_string(own.begin) + " to " + std::to_string(own.end()) + ", which need key/value heads " +
        std::to_string(own.begin / group) + " to " + std::to_string((own.end() + group - 1) / group) +
        ", but it has " + std::to_string(keys.begin) + " to " + std::to_string(keys.end()));
  }
}

}  // namespace detail

/// q: [batch, queries, heads, head_dim], k and v: [batch, keys, kv_heads, head_dim]; the result is as q.
/// Throws `std::invalid_argument`, on every rank, if the shapes do not fit or the heads cannot be shared out.
template <Operand Q, Operand K, Operand V, class Result = result_of<AttentionOp, Q, K, V>>
constexpr auto attention(const Q& q, const K& k, const V& v, const AttentionOptions& options = {}) {
  AttentionOp::shape(value_of(q).shape(), value_of(k).shape(), value_of(v).shape());
  detail::check_heads(value_of(q), value_of(q).shape()[2], value_of(k).shape()[2]);
  return apply(AttentionOp{options}, q, k, v);
}
template <Operand Q, Operand K, Operand V, IllFormed Why = result_of<AttentionOp, Q, K, V>>
Why attention(const Q&, const K&, const V&, const AttentionOptions& = {});  // see Why

}  // namespace shardwise
