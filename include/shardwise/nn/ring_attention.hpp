// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `RingAttention`: attention of sequences that are sharded along an axis. Keys and values travel from rank to rank, a
/// block at a time, and the contributions of the blocks are merged (Liu et al., "Ring attention with blockwise
/// transformers for near-infinite context", 2023). A rank starts the transfer of the next block before it computes with
/// the one that it has. `Ring<cp>` is the style.

#include <shardwise/nn/attention.hpp>
#include <shardwise/nn/ring_part.hpp>

namespace shardwise {

namespace detail {

template <class T, class DocumentsView, class Documents, TensorType Y>
struct RingPullback {
  RingPart<T, DocumentsView> part;
  [[no_unique_address]] Documents documents;  // `part` is a view of them
  int axis;
  Y y;
  Buffer lse;
  RingBlocks held;  // q, k and v at this rank's computed positions, if these are not its block's
  NodeInput<T, 4> q, k, v;
  ResultSlot slot;

  constexpr bool operator()(BackwardPart) {
    const Buffer dy = slot->pass();
    if (!dy) return false;
    const MeshView mesh(y.mesh());
    RingBlocks own = std::move(held), result{{y.buffer(), dy}, {}};
    const bool swaps = bool(own.keys.first);
    if (swaps) {
      result = part.swapped(mesh, axis, result, false);
    } else {
      own = {{q.saved.block(), {}}, {k.saved.block(), v.saved.block()}};
    }
    RingBackward<T, RingPullback> round(mesh, *this, own.queries.first, result.queries);
    go_round(mesh, axis, part, own.keys, round);
    RingBlocks gradients{{round.dq, {}}, round.finish()};
    if (swaps) gradients = part.swapped(mesh, axis, gradients, true);
    leave(q, std::move(gradients.queries.first));
    leave(k, std::move(gradients.keys.first));
    leave(v, std::move(gradients.keys.second));
    return false;
  }

  constexpr void leave(NodeInput<T, 4>& input, Buffer gradient) const {
    if (!input.slot) return;
    gradient->set_use(input.slot->use());
    input.slot->add(std::move(gradient), element_sum<T>, y.mesh().recorder());
    input.slot->settle();
  }
};

}  // namespace detail

/// Throws as `attention` does. In bfloat16 the result of each block is rounded before it is merged.
template <MeshAxis Axis>
class RingAttention : public Module<RingAttention<Axis>> {
  using Sharded = PrepareModuleInput<Axis, Shard<1>, Shard<1>, Shard<1>>;
  using Gathered = PrepareModuleInput<Axis, Shard<1>, Reduced, Reduced>;

 public:
  /// See `attention`. Along the axis q, k and v become `Shard<1>`, and so is the result; documents are whole.
  template <Operand Q, Operand K, Operand V, Operand... Documents>
  constexpr auto forward(const Q& q, const K& k, const V& v, const Documents&... documents) const {
    return forward(q, k, v, documents..., AttentionOptions());
  }
  template <Operand Q, Operand K, Operand V>
  constexpr auto forward(const Q& q, const K& k, const V& v, const AttentionOptions& options) const {
    return attend(options, q, k, v);
  }
  template <Operand Q, Operand K, Operand V, Operand Documents>
  constexpr auto forward(const Q& q, const K& k, const V& v, const Documents& documents,
                         const AttentionOptions& options) const {
    return attend(options, q, k, v, documents);
  }
  constexpr void visit(auto&&) {}

 private:
  /// The result has the type that it has with gathered keys and values.
  template <std::size_t I, class X>
  using AsGathered = decltype(detail::prepared<Gathered, typename Gathered::ArgumentsOf, I>(
      std::declval<abstract_argument<X>>()));
  template <std::size_t I>
  static constexpr auto sharded(const auto& x) {
    return detail::prepared<Sharded, typename Sharded::ArgumentsOf, I>(x);
  }

  template <class Q, class K, class V, class... Documents>
  static constexpr auto attend(const AttentionOptions& options, const Q& q, const K& k, const V& v,
                               const Documents&... documents) {
    using Result = result_of<AttentionOp, AsGathered<0, Q>, AsGathered<1, K>, AsGathered<2, V>, Documents...>;
    if constexpr (AbstractOperand<Q> || AbstractOperand<K> || AbstractOperand<V>) {
      return Result{};
    } else {
      return run<tensor_of<Result>>(options.checked(), sharded<0>(q), sharded<1>(k), sharded<2>(v),
                                    value_of(documents)...);
    }
  }
  static constexpr auto view_of() { return detail::Nothing(); }
  static constexpr auto view_of(const auto& documents) { return documents.view(); }
  static constexpr auto kept() { return detail::Nothing(); }
  static constexpr auto kept(const auto& documents) { return documents; }

  template <TensorType Y, class Q, class K, class V, class... Documents>
  static constexpr auto run(const AttentionOptions& options, const Q& q_given, const K& k_given,
                            const V& v_given, const Documents&... documents) {
    using T = typename Y::Element;
    const auto& q = value_of(q_given);
    const auto& k = value_of(k_given);
    const auto& v = value_of(v_given);
    detail::check_attention(q, k, v, documents...);
    if (k.shape() != v.shape()) {
      detail::fail({"RingAttention: keys have head_dim ", k.shape()[3], ", and values ", v.shape()[3],
                    ", which must be the same, because both travel in blocks of one size; use GatherKeys"});
    }
    const auto& mesh = common_mesh(q, k, v, documents...);
    const MeshView on(mesh);
    constexpr int axis = Y::MeshOf::AxesOf::template index<Axis>;
    const detail::RingSteps steps(on.sizes(), on.coordinates(), axis, q.shape()[1], tensor_of<Q>::layout,
                                  k.shape()[1], tensor_of<K>::layout, options);
    using View = decltype(view_of(documents...));
    detail::RingPart<T, View> part{{options}, steps, q.view(), k.view(), view_of(documents...)};
    detail::RingBlocks own{{q.buffer(), {}}, {k.buffer(), v.buffer()}}, held;
    if (part.swaps()) own = held = part.swapped(on, axis, own, false);
    detail::RingForward<T, View> round(on, part, own.queries.first);
    detail::go_round(on, axis, part, own.keys, round);
    Buffer o = round.o;
    if (part.swaps()) o = part.swapped(on, axis, {{o, {}}, {}}, true).queries.first;
    return on_common_tape(
        Y(mesh, q.shape(), std::move(o)),
        [&](Tape& tape, const Y& result, const auto& slot) {
          using Pullback = detail::RingPullback<T, View, decltype(kept(documents...)), Y>;
          auto pullback = Pullback{part,
                                   kept(documents...),
                                   axis,
                                   result,
                                   round.lse,
                                   std::move(held),
                                   detail::node_input(q_given, true),
                                   detail::node_input(k_given, true),
                                   detail::node_input(v_given, true),
                                   slot};
          if (part.swaps()) pullback.q.saved = {}, pullback.k.saved = {}, pullback.v.saved = {};
          tape.record<PullbackNode<Pullback>>(std::move(pullback));
          return Shared<Recipe>();
        },
        q_given, k_given, v_given);
  }
};

namespace detail {
template <MeshAxis Axis>
struct Styled<InnerAttention, Ring<Axis>> : TypeIs<RingAttention<Axis>> {};
}  // namespace detail

}  // namespace shardwise
