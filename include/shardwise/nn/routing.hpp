// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Routing: which experts a token goes to, with which weights, from a router's logits; and the losses that keep the
/// experts evenly used and the logits small.
///
/// ```
/// auto routing = route(logits, {.k = 8});
/// auto y = experts(x, routing.ids, routing.weights, gate_up, down);
/// auto loss = task_loss + 0.01 * balance_loss(routing) + 0.001 * z_loss(routing);
/// ```

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/activation.hpp>
#include <shardwise/ops/argmax.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/contract.hpp>
#include <shardwise/ops/index_select.hpp>
#include <shardwise/ops/one_hot.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/ops/softmax.hpp>

namespace shardwise {

/// How logits become scores: over all experts, or each by itself.
enum class ScoreFunction : std::uint8_t { softmax, sigmoid };

struct RoutingOptions {
  Index k = 2;  ///< experts of a token
  ScoreFunction scores = ScoreFunction::softmax;
  bool normalized = true;  ///< the weights of a token are divided by their sum
  double scale = 1;        ///< factor of the weights
  TopKOptions choice{};    ///< groups of experts
};

/// The result of `route`. Every member has the layout of the logits.
template <class Logits, class Ids, class Weights>
struct Routing {
  Logits logits;    ///< [t…, experts]
  Ids ids;          ///< [t…, k]
  Weights weights;  ///< [t…, k]
  RoutingOptions options;
};

namespace detail {

template <class R>
concept IsRouting = requires(const R& routing) {
  routing.logits;
  routing.ids;
  routing.options;
};

/// The scores of all experts, normalized.
constexpr auto probabilities(const auto& logits, ScoreFunction scores) {
  if (scores == ScoreFunction::softmax) return softmax(logits);
  return softmax(scale(softplus(scale(logits, -1)), -1));  // of log(sigmoid)
}

/// x in a layout without anything sharded, pending or `Reduced`.
template <Operand X>
constexpr auto whole_on_every_rank(const X& x) {
  using Y = tensor_of<X>;
  if constexpr (IllFormed<Y>) {
    return x;
  } else {
    return redistribute_to<whole_of<Y>>(x);
  }
}

/// The mean over the tokens of x, [t…, c], on all ranks: [c].
template <Operand X>
constexpr auto mean_over_tokens(const X& x) {
  if constexpr (rank_of<X> == 1) {
    return whole_on_every_rank(x);
  } else {
    return mean_over_tokens(mean<0>(x));
  }
}
/// The same with a weight for each token, such as 1, or 0 for padding.
template <Operand X, Operand Mask>
constexpr auto mean_over_tokens(const X& x, const Mask& mask) {
  const auto weights =
      redistribute_to<with_layout<tensor_of<Mask>, packed(tensor_of<X>::layout)>>(alongside(mask, x));
  return div(whole_on_every_rank(contract<"r*e, r* -> e">(x, weights)), whole_on_every_rank(sum(weights)));
}

/// Throws if no logit can change a weight: the router then learns nothing from what the experts return.
constexpr void check_router_learns(const RoutingOptions& options, Index experts) {
  if (options.k == 1 && options.normalized) {
    fail({"route: the weight of a token's only expert is always ", options.scale,
          ", because weights are normalized, so the router learns nothing; expected k of 2 or more, or "
          "normalized = false"});
  }
  if (experts == 1 && options.scores == ScoreFunction::softmax)
    fail(
        {"route: the score of the only expert is always 1, so the router learns nothing; expected 2 or "
         "more"});
}

/// The ids that a bias chooses, or why it cannot.
template <class Logits, class Bias>
using BiasedIds = std::conditional_t<
    is_abstract<Logits>, void,
    result_of<BiasedTopKOp, Logits,
              decltype(alongside(std::declval<const Bias&>(), std::declval<const Logits&>()))>>;

/// Puts the load of the experts on the tape, as the gradient of their bias: whatever pass reaches it adds the load of
/// these ids, once. Where several ranks have the same tokens, the first of them counts them.
template <Operand Ids, Operand Bias>
constexpr void count_load(const Ids& ids, const Bias& bias) {
  using B = tensor_of<Bias>;
  using I = tensor_of<Ids>;
  auto count = [tokens = value_of(ids), mesh = bias.mesh(), shape = bias.shape(),
                slot = slot_of(bias)](BackwardPart part) {
    if (part == BackwardPart::inputs) return true;
    cotangent_of<B> load(mesh, shape, MemoryUse::gradient);
    const auto chosen = tokens.view();
    count_work(mesh, chosen.elements() + shape[0], chosen.bytes(), "load");
    if (!mesh.dry()) {
      const AxisSet same = axes_where(B::MeshOf::axes, [&](int axis) {
        return B::layout[axis] == reduced && !I::layout[axis].is_shard() && mesh.coordinates()[axis] != 0;
      });
      const auto to = load.writable();
      const Index choices = same == 0 ? chosen.elements() : 0;
      using T = typename B::Element;
      kernel::fill<T>(shape[0], -static_cast<T>(choices), to.data);
      for (Index i = 0; i < choices; ++i) to.data[chosen.data[i]] += static_cast<T>(shape[0]);
    }
    slot->add(std::move(load));
    slot->settle();
    return false;
  };
  slot_of(bias)->expect();
  bias.tape().template record<PullbackNode<decltype(count)>>(std::move(count));
}

}  // namespace detail

/// The k experts of each token, and the weights of their results. logits: [t…, experts], with all experts on every
/// rank, in the layout of the tokens. The ids, largest score first, and of equal scores the lower id, have no gradient;
/// the weights have. A `bias`, [experts], of the logits' type, or of `float` beside `bfloat16`, is added to the scores
/// for the choice, and not for the weights. Its gradient is not a derivative, but the load of the experts: experts ·
/// choices of expert e - all choices, of all tokens; so the sum over the experts is 0. `Optimizer::set_bias_rate` uses
/// it, for a parameter with `Sharding::counted`. Throws as `top_k` does, and `std::invalid_argument` for logits with a
/// gradient if no logit can change a weight, as for k = 1 with `normalized`.
template <Operand Logits, Operand... Bias>
  requires(sizeof...(Bias) <= 1 && (WellFormed<detail::BiasedIds<Logits, Bias>> && ...))
constexpr auto route(const Logits& logits, const RoutingOptions& options, const Bias&... bias) {
  if constexpr (OperandTraits<Logits>::tracked && !is_abstract<Logits>)
    detail::check_router_learns(options, logits.shape()[rank_of<Logits> - 1]);
  const auto scores = [&] {
    if (options.scores == ScoreFunction::softmax) return softmax(logits);
    return sigmoid(logits);
  }();
  const auto ids = [&] {
    if constexpr (sizeof...(Bias) == 0)
      return top_k(scores, options.k, options.choice);
    else
      return apply(BiasedTopKOp{{options.k, options.choice}}, scores, alongside(bias, logits)...);
  }();
  if constexpr (OperandTraits<Logits>::on_tape && !is_abstract<Logits> &&
                (OperandTraits<Bias>::tracked || ...))
    (detail::count_load(ids, alongside(bias, logits)), ...);
  auto weights = [&] {
    if (options.normalized) return detail::probabilities(take_along_dim(logits, ids), options.scores);
    return take_along_dim(scores, ids);
  }();
  if (options.scale != 1) weights = scale(weights, options.scale);
  return Routing<Logits, std::remove_const_t<decltype(ids)>, decltype(weights)>{logits, ids, weights,
                                                                                options};
}

template <Operand Logits, Operand Bias, IllFormed Why = detail::BiasedIds<Logits, Bias>>
Why route(const Logits&, const RoutingOptions&, const Bias&);  // see Why

struct BalanceLossOptions {
  double uniform = 1;  ///< the loss of evenly used experts: 1 in Switch, k in Hugging Face's models
};

/// uniform · E · Σ_e f_e · P_e (Fedus et al., "Switch transformers", 2021). f_e is the share of expert e among the
/// choices, P_e its mean probability, both over the tokens of the whole batch. A `mask`, [t…], of the logits' element
/// type, in any layout, is 1 for tokens that count and 0 for padding. The result is a scalar, the same on every rank.
/// Forward it communicates one all-reduce of a number for each expert, for f and for P; backward nothing.
template <detail::IsRouting R, Operand... Mask>
  requires(sizeof...(Mask) <= 1)
constexpr auto balance_loss(const R& routing, const BalanceLossOptions& options = {}, const Mask&... mask) {
  using Element = typename tensor_of<decltype(routing.logits)>::Element;
  const Index experts = routing.logits.shape()[rank_of<std::remove_cvref_t<decltype(routing.logits)>> - 1];
  const auto chosen = sum<-2>(one_hot<Element>(routing.ids, experts));
  const auto share = detail::mean_over_tokens(chosen, mask...);
  const auto mean =
      detail::mean_over_tokens(detail::probabilities(routing.logits, routing.options.scores), mask...);
  return scale(sum(mul(mean, share)),
               options.uniform * static_cast<double>(experts) / static_cast<double>(routing.options.k));
}
template <class Other, class... Rest, IllFormed Why = WrittenOtherwise<Hint::pass_what_route_returns>>
  requires(!detail::IsRouting<Other>)
Why balance_loss(const Other&, const Rest&...);  // see Why

/// The mean over the tokens of (log Σ_e exp(logits_e))² (Zoph et al., "ST-MoE", 2022). For a mask, see `balance_loss`.
/// The result is a scalar, the same on every rank. Forward one all-reduce of a number, backward nothing.
template <detail::IsRouting R, Operand... Mask>
  requires(sizeof...(Mask) <= 1)
constexpr auto z_loss(const R& routing, const Mask&... mask) {
  const auto largest = top_k(routing.logits, 1);
  const auto total =
      sub(take_along_dim(routing.logits, largest), log(take_along_dim(softmax(routing.logits), largest)));
  return sum(detail::mean_over_tokens(mul(total, total), mask...));
}
template <class Other, class... Rest, IllFormed Why = WrittenOtherwise<Hint::pass_what_route_returns>>
  requires(!detail::IsRouting<Other>)
Why z_loss(const Other&, const Rest&...);  // see Why

}  // namespace shardwise
