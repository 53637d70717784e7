// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `MixtureOfExperts`: a router, gated MLPs of which each token uses a few, and one that every token uses, if wanted.
///
/// ```
/// MixtureOfExperts<Mesh<dp, ep>, ExpertParallel<ep>> moe(mesh, 512, {.experts = 64, .hidden = 128});
/// auto y = moe(x);   // one all-gather and one reduce-scatter over ep, forward and backward
/// ```
/// Along the axes that the style names, all ranks route all of their tokens, and compute terms of the results. No token
/// is dropped, and what is communicated does not depend on the choices, unless tokens are exchanged `by_counts`.
///
/// A model adds the losses of a routing to its own loss, so they count once, whatever is computed again:
///
///     auto in = moe.take(x);  auto routing = moe.route(in);  auto y = moe.mix(in, routing, x);   // y = moe(x)
///     auto loss = … + 0.01 * balance_loss(routing);

#include <optional>

#include <shardwise/module/module.hpp>
#include <shardwise/nn/routed_experts.hpp>
#include <shardwise/nn/routing.hpp>
#include <shardwise/ops/add.hpp>
#include <shardwise/ops/linear.hpp>
#include <shardwise/ops/swiglu.hpp>
#include <shardwise/parallel/plan.hpp>
#include <shardwise/parallel/style_problem.hpp>
#include <shardwise/parallel/zero.hpp>

namespace shardwise {

/// An option of `ExpertParallel`: tokens are not gathered, but each goes to the ranks that have its experts, by
/// all-to-alls whose sizes are data. It moves less if there are more ranks than experts of a token.
struct by_counts {};

/// An option of `ExpertParallel`: `by_counts`, or the element type of messages.
template <class T>
concept ExpertOption = CommunicationOption<T> || std::is_same_v<T, by_counts>;

/// Splits the experts: each rank computes the terms of its own.
template <StyleAxes Axes, ExpertOption... Option>
struct ExpertParallel : detail::StyleOptions<detail::NaturalOutput, detail::CommunicateAsStored, Option...> {
  using NamedAxes = typename detail::AxesNamed<Axes>::type;
  static constexpr bool counts = (std::is_same_v<Option, by_counts> || ...);
  static_assert(!counts || sizeof...(Option) == 1, "by_counts sends elements as they are stored");
  static constexpr bool suits(ModuleKind kind) { return kind == ModuleKind::experts; }
  /// The tokens of all ranks; or by counts, this rank's own, whichever dimension is sharded.
  static constexpr Placement input(Placement found, int feature) {
    if (!counts) return reduced;
    return found.is_shard() && found.dim() < feature ? found : shard(0);
  }
  static constexpr Placement weight(int, int) { return shard(0); }
  static constexpr Placement bias() { return reduced; }
};

/// Splits the hidden features of every expert.
template <StyleAxes Axes, CommunicationOption... Option>
struct ExpertTensorParallel : ExpertParallel<Axes, Option...> {
  static constexpr Placement weight(int, int) { return shard(2); }  // of [e, 2, f, h] and of [e, o, f]
};

namespace detail {
/// Whether a style of experts splits them along an axis on which `Extra` shards parameters.
template <class Experts, class Extra>
concept SplitAlong = !std::is_void_v<
    typename SharedAxis<decltype(std::tuple_cat(named_axes<Experts>(), named_axes<Extra>()))>::type>;
/// They are sharded there already: ZeRO adds nothing.
template <StyleAxes Axes, ExpertOption... Option, int Level, StyleAxes Data>
  requires SplitAlong<ExpertParallel<Axes>, shardwise::Zero<Level, Data>>
struct StyleAnd<ExpertParallel<Axes, Option...>, shardwise::Zero<Level, Data>>
    : TypeIs<ExpertParallel<Axes, Option...>> {
};
template <StyleAxes Axes, ExpertOption... Option, int Level, StyleAxes Data>
  requires SplitAlong<ExpertParallel<Axes>, shardwise::Zero<Level, Data>>
struct StyleAnd<Styles<ExpertParallel<Axes, Option...>, Frozen>, shardwise::Zero<Level, Data>>
    : TypeIs<Styles<ExpertParallel<Axes, Option...>, Frozen>> {
};
}  // namespace detail

struct MixtureOptions {
  Index experts;
  Index hidden;  ///< features of each
  RoutingOptions routing{};
  Index shared_hidden = 0;     ///< hidden features of an MLP for all tokens; 0: there is none
  bool bias = false;           ///< whether a bias takes part in the choice, moved by the load: see `route`
  std::optional<Init> init{};  ///< of all weights; by default uniform, by the number of their input features

  /// Returns itself. Throws `std::invalid_argument` unless there are experts, and as many as a token uses.
  constexpr const MixtureOptions& checked() const {
    if (experts < 1 || hidden < 1) {
      detail::fail({"MixtureOfExperts: ", experts, " experts of ", hidden,
                    " hidden features; both numbers must be 1 or more"});
    }
    const auto [groups, kept] = routing.choice;
    if (groups < 1 || kept < 1 || kept > groups || experts % groups != 0) {
      detail::fail({"MixtureOfExperts: routing.choice has ", groups, " groups and keeps ", kept, " of ",
                    experts, " experts: the groups must divide the experts, and at least one be kept"});
    }
    if (routing.k < 1 || routing.k > experts / groups * kept) {
      detail::fail({"MixtureOfExperts: routing.k is ", routing.k, ", which must be 1 to ",
                    experts / groups * kept, ", the experts that a token may use"});
    }
    return *this;
  }
};

template <class MeshType, ParallelStyle Style = NoParallel, class T = float>
class MixtureOfExperts : public Module<MixtureOfExperts<MeshType, Style, T>> {
  /// The axes along which tokens are exchanged by counts.
  static constexpr AxisSet counted =
      detail::input_layout<Style, MeshType>(everywhere(MeshType::axes, replicate), 1).axes_sharding(0);
  static constexpr bool is_counted(int axis) { return (counted >> axis & 1u) != 0; }
  static constexpr Layout weights = detail::weight_layout<Style, MeshType>(2, 3),
                          down_weights = detail::weight_layout<Style, MeshType>(1, 2),
                          router_weights = detail::bias_layout<Style, MeshType>();
  /// The shared MLP splits its hidden features, dimension `dim`, where the experts are split and tokens are not.
  static constexpr Layout shared_weights(int dim) {
    return Layout::by_axis(MeshType::axes, [=](int axis) {
      if (is_counted(axis)) return reduced;
      return weights[axis].is_shard() ? shard(dim) : weights[axis];
    });
  }
  /// A parameter with output features in dimension `Out` and input features in dimension `In`.
  template <PackedLayout L, int Rank, int Out, int In>
  using Weight = Parameter<tensor_with<T, Rank, MeshType, L>,
                           packed(detail::sharding_of<Style, MeshType>(
                               tensor_with<T, Rank, MeshType, L>::layout, {Out, 1}, {In, 1}))>;
  using Bias = Parameter<tensor_with<kernel::compute_t<T>, 1, MeshType, packed(router_weights)>,
                         packed(detail::sharding_of<Style, MeshType>(router_weights, {0, 1}, {0, 1})) |
                             packed(Sharding{.counted = true})>;

 public:
  using Problem = detail::style_problem<MeshType, ModuleKind::experts, Style>;
  using Communication = typename detail::CommunicationOf<Style>::type;

  /// gate, up: [hidden, features]; down: [features, hidden].
  struct Shared {
    Weight<packed(shared_weights(0)), 2, 0, 1> gate, up;
    Weight<packed(shared_weights(1)), 2, 0, 1> down;
  };

  constexpr MixtureOfExperts(const MeshType& mesh, Index features,
                             const MixtureOptions& options) requires WellFormed<Problem>
      : router(mesh, {options.checked().experts, features}, init_of(options, features)),
        gate_up(mesh, {options.experts, 2, options.hidden, features}, init_of(options, features)),
        down(mesh, {options.experts, features, options.hidden}, init_of(options, options.hidden)),
        routing_(options.routing) {
    if (options.bias) bias.emplace(mesh, Shape<1>{options.experts}, Init::constant(0));
    if (const Index hidden = options.shared_hidden; hidden > 0) {
      const Init init = init_of(options, features);
      shared.emplace(Shared{{mesh, {hidden, features}, init},
                            {mesh, {hidden, features}, init},
                            {mesh, {features, hidden}, init_of(options, hidden)}});
    }
  }
  template <IllFormed Why = Problem>
  MixtureOfExperts(const MeshType&, Index, const MixtureOptions&) = delete;  // see Why

  /// x: [t…, features]; the result has its shape and, where the style names axes, its layout.
  constexpr auto forward(const Operand auto& x) const {
    const auto in = take(x);
    return mix(in, route(in), x);
  }

  /// The tokens in the layout in which the experts need them.
  static constexpr auto take(const Operand auto& x) { return detail::redistribute_input<Style, 1>(x); }
  /// The routing of `in`, what `take` returned. See nn/routing.hpp.
  constexpr auto route(const Operand auto& in) const {
    const auto logits = linear<1>(in, router);
    if (bias) return shardwise::route(logits, routing_, *bias);
    return shardwise::route(logits, routing_);
  }
  /// The results of the experts for `in`, in the layout of `x`.
  template <Operand X>
  constexpr auto mix(const Operand auto& in, const auto& routing, const X&) const {
    auto y = [&] {
      if constexpr (counted == 0)
        return experts(in, routing.ids, routing.weights, gate_up, down);
      else
        return detail::routed_experts<counted>(in, routing.ids, routing.weights, gate_up, down);
    }();
    if (shared)
      y = add(y, linear<1>(swiglu(linear<1>(in, shared->gate), linear<1>(in, shared->up)), shared->down));
    using Y = tensor_of<decltype(y)>;
    if constexpr (IllFormed<Y>) {
      return y;
    } else {
      constexpr Layout wanted = Layout::by_axis(MeshType::axes, [](int axis) {
        const Placement given = tensor_of<X>::layout[axis], natural = Y::layout[axis];
        return natural.is_partial() || (is_counted(axis) && !given.is_partial()) ? given : natural;
      });
      return redistribute_to<detail::redistributed_by<Style, packed(wanted), decltype(y)>>(
          std::move(y), Communication::types());
    }
  }

  constexpr void visit(auto&& f) {
    f("router", router);
    if (bias) f("bias", *bias);
    f("gate_up", gate_up);
    f("down", down);
    if (!shared) return;
    f("shared.gate", shared->gate);
    f("shared.up", shared->up);
    f("shared.down", shared->down);
  }

  Weight<packed(router_weights), 2, 0, 1> router;  ///< [experts, features]
  std::optional<Bias> bias;                        ///< [experts], in `float` beside `bfloat16`
  Weight<packed(weights), 4, 2, 3> gate_up;        ///< [experts, 2, hidden, features], the gate first
  Weight<packed(down_weights), 3, 1, 2> down;      ///< [experts, features, hidden]
  std::optional<Shared> shared;

 private:
  static constexpr Init init_of(const MixtureOptions& options, Index features) {
    return options.init.value_or(Init::fan_in(features));
  }

  RoutingOptions routing_;
};

}  // namespace shardwise
