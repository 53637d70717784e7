// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `attention`: softmax(scale · q kᵀ) v for every head, by blocks, so that the matrix of scores never exists
/// (Dao, "FlashAttention-2", 2023). Batch, heads and queries may be sharded; keys and head_dim are whole.
///
/// ```
/// o = attention(q, k, v);                       // causal, scaled by 1/√head_dim
/// o = attention(q, k, v, {.causal = false});
/// o = attention(q, k, v, {.window = 4096});     // and only the last 4096 tokens
/// o = attention(q, k, v, documents);            // and only the tokens of its own document
/// ```
/// A query sees an interval of the keys; blocks of keys that no query of a block sees are skipped.
///
/// Grouped queries (Ainslie et al., "GQA", 2023): k and v may have fewer heads than q, each serving a group
/// of consecutive query heads. Along one axis, two layouts shard heads and one shards queries:
///
/// | q          | k and v    | o          | each rank holds                                                  |
/// |------------|------------|------------|------------------------------------------------------------------|
/// | `Shard<2>` | `Shard<2>` | `Shard<2>` | heads and just the key/value heads that they use                 |
/// | `Shard<2>` | `Reduced`  | `Shard<2>` | heads and all key/value heads, whose gradients are pending sums  |
/// | `Shard<1>` | `Reduced`  | `Shard<1>` | queries and all keys and values; their gradients pend as well    |
///
/// 8 heads and 2 key/value heads fit on 1 or 2 ranks in the first way, on any number in the second; on a mesh
/// <tp, kvr> of 2 x 4, q [`Shard<2>`, `Shard<2>`] with k and v [`Shard<2>`, `Reduced`] is both.

#include <shardwise/kernel/attention.hpp>
#include <shardwise/kernel/documents.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

struct AttentionOptions {
  /// A query sees no key after its own position. The last query is at the last key.
  bool causal = true;
  /// A query sees just the keys that are less than `window` positions away from it.
  std::optional<Index> window{};
  /// The factor of the scores; 1/√head_dim if not given.
  std::optional<double> scale{};
  /// Above 0: scores become softcap · tanh(score / softcap) (Gemma 2).
  double softcap = 0;
  /// The probability of a weight to be dropped, by the seed and the weight's place: the same on every mesh. Give each
  /// use and each step a seed of its own.
  double dropout = 0;
  std::uint64_t seed = 0;

  /// Returns itself. Throws `std::invalid_argument` if an option is out of range.
  constexpr const AttentionOptions& checked() const {
    if (window && *window < 1) {
      detail::fail({"attention: the window is ", *window, ", but a query sees at least its own position: 1"});
    }
    if (!(dropout >= 0 && dropout < 1)) {
      detail::fail({"attention: the probability of dropout, ", dropout, ", is not in [0, 1)"});
    }
    if (scale &&
        !(*scale >= std::numeric_limits<double>::lowest() && *scale <= std::numeric_limits<double>::max())) {
      detail::fail({"attention: the scale is ", *scale, ", which is not a finite number"});
    }
    if (!(softcap >= 0)) detail::fail({"attention: softcap is ", softcap, ", which must be 0 or more"});
    return *this;
  }
};

struct AttentionOp {
  static constexpr const char* name = "attention";
  AttentionOptions options;

  static constexpr Signature whole_rows =
      Signature::of("bshd, bthd, bthe -> bshe").whole('t').whole('d').whole('e');
  static constexpr Signature in_documents =
      Signature::of("bshd, bthd, bthe, bt -> bshe").whole('t').whole('d').whole('e').without_gradient(3);
  static constexpr Saved saved{.inputs = 0b1111, .output = true};

  /// Heads and key/value heads are both h, because they are cut alike.
  template <int... Ranks>
  static constexpr Signature signature() {
    return sizeof...(Ranks) == 4 ? in_documents : whole_rows;
  }
  /// Where every rank holds all key/value heads, these are an index of their own.
  static constexpr Propagated rule(Signature own, const OperandPlacements& at) {
    if (at[0].is_shard(2) && at[1].is_full() && at[2].is_full()) {
      own.operands[1] = "btkd";
      own.operands[2] = "btke";
      own = own.whole('k');
    }
    return propagate(own, at);
  }

  [[gnu::noinline]] static constexpr Shape<4> shape(const Shape<4>& q, const Shape<4>& k, const Shape<4>& v) {
    auto text = [&] { return detail::text({"q ", q, ", k ", k, ", v ", v}); };
    Shape<4> o = q, values = k;
    o[3] = values[3] = v[3];
    if (v != values) detail::fail({"attention: k and v differ in more than head_dim: ", text()});
    if (q[0] != k[0] || q[3] != k[3]) {
      detail::fail({"attention: batch or head_dim differ between q and k: ", text()});
    }
    if (k[2] == 0 ? q[2] != 0 : q[2] % k[2] != 0) {
      detail::fail(
          {"attention: ", q[2], " heads are not a multiple of ", k[2], " key/value heads: ", text()});
    }
    return o;
  }
  static constexpr Shape<4> shape(const Shape<4>& q, const Shape<4>& k, const Shape<4>& v,
                                  const Shape<2>& documents) {
    if (documents[0] != k[0] || documents[1] != k[1] || q[1] > k[1]) {
      detail::fail({"attention: the documents are ", documents, ", but q is ", q, " and k ", k,
                    ": they are numbers of the keys' tokens, of which the last are the queries'"});
    }
    return shape(q, k, v);
  }

  /// Forward has two products. Backward has one for the scores, one for the gradient of the weights, and one for each
  /// operand's gradient. Only pairs of a query and a key that it sees count. A plan does not know the documents, so it
  /// counts a row as one.
  constexpr std::int64_t flops(const auto& o, const auto& q, const auto& k, const auto&...) const {
    return 2 * pairs(q, k) * (q.size[3] + o.size[3]);
  }
  constexpr std::int64_t gradient_flops(unsigned wanted, const auto& o, const auto& q, const auto& k,
                                        const auto&...) const {
    const Index values = wanted >> 2 & 1u, others = std::popcount(wanted) - values;
    return 2 * pairs(q, k) * ((1 + others) * q.size[3] + (1 + values) * o.size[3]);
  }

  /// The logarithm of the sum of exponentials of each query's scores.
  template <class T>
  static constexpr Index residual_bytes(const auto&, const View<const T, 4>& q, const auto&...) {
    return q.extent(0, 3) * static_cast<Index>(sizeof(kernel::compute_t<T>));
  }

  template <class T, class... Id>
  void forward(View<T, 4> o, void* lse, View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
               View<const Id, 2>... documents) const {
    kernel::attention(extents(q, k, v.size[3], documents...), q.data, k.data, v.data, o.data,
                      static_cast<kernel::compute_t<T>*>(lse));
  }

  template <class T, class... Id>
  void pull_back(View<const T, 4> d_o, View<const T, 4> o, const void* lse, Input<T, 4> q, Input<T, 4> k,
                 Input<T, 4> v, Input<Id, 2>... documents) const {
    kernel::attention_backward(extents<T>(q, k, v.size[3], documents...), q.data, k.data, v.data, o.data,
                               static_cast<const kernel::compute_t<T>*>(lse), d_o.data, q.gradient,
                               k.gradient, v.gradient);
  }

  /// q and k are blocks that have the global numbers of their heads and queries.
  template <class T>
  kernel::AttentionShape extents(const View<const T, 4>& q, const View<const T, 4>& k,
                                 Index value_dim) const {
    const double scale = options.scale ? *options.scale : 1 / std::sqrt(static_cast<double>(q.size[3]));
    const Index group = k.shape[2] > 0 ? q.shape[2] / k.shape[2] : 1;
    return {.batch = q.size[0],
            .queries = q.size[1],
            .keys = k.size[1],
            .heads = q.size[2],
            .kv_heads = k.size[2],
            .head_dim = q.size[3],
            .causal = options.causal,
            .scale = scale,
            .group = group,
            .first_head = q.begin[2] - k.begin[2] * group,
            .first_query = first_query(q, k),
            .window = window(q, k),
            .value_dim = value_dim,
            .softcap = options.softcap,
            .dropout = {options.dropout, options.seed, q.shape[2], k.shape[1], q.shape[1], q.begin[0],
                        q.begin[2], q.begin[1]}};
  }
  template <class T, class Id>
  kernel::AttentionShape extents(const View<const T, 4>& q, const View<const T, 4>& k, Index value_dim,
                                 const View<const Id, 2>& documents) const {
    struct Documents;
    kernel::AttentionShape shape = extents(q, k, value_dim);
    Range* ranges = kernel::scratch<Documents, Range>(q.extent(0, 2));
    kernel::document_ranges(q.size[0], k.size[1], documents.data, shape.first_query, q.size[1], ranges);
    shape.seen = ranges;
    return shape;
  }

 private:
  /// The pairs of a query and a key that it sees, in all heads.
  constexpr Index pairs(const auto& q, const auto& k) const {
    return q.size[0] * q.size[2] *
           kernel::visible_pairs(q.size[1], k.size[1], first_query(q, k), options.causal, window(q, k));
  }
  /// The position among the keys of the first query of a block.
  static constexpr Index first_query(const auto& q, const auto& k) {
    return k.size[1] - q.shape[1] + q.begin[1];
  }
  constexpr std::optional<Index> window(const auto& q, const auto& k) const {
    if (!options.window) return {};
    return std::min(*options.window, q.shape[1] + k.size[1]);  // covers all keys
  }
};

namespace detail {

/// The range of dimension `dim` of a tensor, such as its heads, that the rank at `at` holds.
constexpr Range range_held(Index extent, const Layout& layout, int dim, const MeshSizes& sizes,
                           const MeshSizes& at) {
  Shape<4> shape{1, 1, 1, 1};
  shape[dim] = extent;
  return local_box(shape, layout, sizes, at).range(dim);
}

/// Throws `std::invalid_argument`, on every rank alike, unless each rank holds the key/value heads that its heads
/// use. Heads are dimension `dim` of tensors that have the layouts `q` and `k`.
[[gnu::noinline]] constexpr void check_heads(Index heads, Index kv_heads, const Layout& q, const Layout& k,
                                             int dim, const MeshSizes& sizes, const char* const* names) {
  const AxisSet cutting = q.axes_sharding(dim);
  if (heads == kv_heads && k.axes_sharding(dim) == cutting) return;
  for (int m = 0; heads > 0 && m < group_size(sizes, q.axes, cutting); ++m) {
    const MeshSizes at = group_member(sizes, {}, q.axes, cutting, m);
    const Range own = range_held(heads, q, dim, sizes, at), held = range_held(kv_heads, k, dim, sizes, at);
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
    const bool ulysses = k.axes_sharding(dim) == cutting && axes.find("cp ") != axes.npos;
    fail({"attention: ", heads, " heads and ", kv_heads, " key/value heads do not fit on ", axes, ": ", rank,
          ", ", needs, ", ", has, "; replicate the key/value heads (Reduced) ", cure,
          ulysses ? ": UlyssesShared does so where Ulysses shards them" : ""});
  }
}

template <Operand Q, Operand K, class... Rest>
constexpr void check_attention(const Q& q, const K& k, const Rest&... rest) {
  AttentionOp::shape(value_of(q).shape(), value_of(k).shape(), value_of(rest).shape()...);
  check_heads(value_of(q).shape()[2], value_of(k).shape()[2], tensor_of<Q>::layout, tensor_of<K>::layout, 2,
              value_of(q).mesh().sizes(), tensor_of<Q>::MeshOf::AxesOf::names.data());
}

}  // namespace detail

/// q: [batch, queries, heads, head_dim], k and v: [batch, keys, kv_heads, head_dim], where v may have another head_dim,
/// which is then that of the result; the result is as q otherwise.
/// Throws `std::invalid_argument`, on every rank, if the shapes do not fit, the heads cannot be shared out, or an
/// option is out of range. The o of a query that sees no key is 0.
template <Operand Q, Operand K, Operand V, WellFormed Result = result_of<AttentionOp, Q, K, V>>
constexpr auto attention(const Q& q, const K& k, const V& v, const AttentionOptions& options = {}) {
  if constexpr (!AbstractOperand<Result>) detail::check_attention(q, k, v);
  return apply(AttentionOp{options.checked()}, q, k, v);
}
template <class Q, class K, class V, IllFormed Why = result_of<AttentionOp, Q, K, V>>
Why attention(const Q&, const K&, const V&, const AttentionOptions& = {});  // see Why

/// The same for documents packed in the rows: a token sees only tokens of its own document. documents: integers
/// [batch, keys], sharded as the batch is and whole otherwise; the queries' tokens are the last of them. Equal numbers
/// side by side are one document, and numbers do not decrease within a row. A negative number is padding: it sees
/// nothing, and no token sees it. Throws `std::invalid_argument` if numbers decrease, as those of tokens would.
/// One document a row, then padding, is a batch of rows of different lengths.
template <Operand Q, Operand K, Operand V, Operand Documents,
          class Result = result_of<AttentionOp, Q, K, V, Documents>>
constexpr auto attention(const Q& q, const K& k, const V& v, const Documents& documents,
                         const AttentionOptions& options = {}) {
  if constexpr (!AbstractOperand<Result>) detail::check_attention(q, k, v, documents);
  return apply(AttentionOp{options.checked()}, q, k, v, documents);
}
template <Operand Q, Operand K, Operand V, Operand Documents,
          IllFormed Why = result_of<AttentionOp, Q, K, V, Documents>>
Why attention(const Q&, const K&, const V&, const Documents&, const AttentionOptions& = {});  // see Why

}  // namespace shardwise
