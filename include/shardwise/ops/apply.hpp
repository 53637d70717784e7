// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `apply` runs an operation: it checks the shapes, runs the kernel on the local blocks, counts, and leaves
/// the pullback on the tape if there is one. An operation is one small struct:
///
/// ```
/// struct MyOp {
///   static constexpr Saved saved{…};                                  // what the pullback reads
///   template <int... Ranks> static constexpr Signature signature();   // which dimensions are the same index
///   static constexpr auto shape(const Shape<R>&... x);                // the result's extents; checks them
///   static void forward(View<T, R> y, void* residual, View<const T, R>... x);
///   static void pull_back(View<const T, R> dy, View<const T, R> y, const void* residual, Input<T, R>... x);
/// };
/// ```
/// and optionally `flops(y, x...)`, `gradient_flops(wanted, y, x...)`, `residual_bytes(y, x...)`;
/// `accumulates`, if `pull_back` can add to a gradient that is there; `passes`, the set of operands whose
/// gradient is the result's gradient itself (bit i is operand i): it is handed on, not copied; and
/// `recomputed`, if operations that need the result in their pullback had better compute it again than keep it.

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/ops/result.hpp>

namespace shardwise {

/// What `pull_back` reads besides the gradient: operands (bit i is operand i), the result.
struct Saved {
  unsigned inputs = 0;
  bool output = false;
};

/// An operand in `pull_back`: its block (without data unless saved), and where its gradient goes (null if
/// none is wanted). With `accumulate` the gradient is to be added to what is there.
template <class T, int Rank>
struct Input : View<const T, Rank> {
  T* gradient = nullptr;
  bool accumulate = false;
};

namespace detail {

template <class Op>
inline constexpr bool accumulates = requires {
  requires Op::accumulates;
};

/// Is the gradient of operand `I` the result's, element by element?
template <class Op, int I>
inline constexpr bool passes = false;
template <class Op, int I>
  requires requires { Op::passes; }
inline constexpr bool passes<Op, I> = (Op::passes >> I & 1u) != 0;

template <class Op>
inline constexpr bool recomputed = requires {
  requires Op::recomputed;
};

template <class Op, class Y, class... X>
constexpr std::int64_t flops(const Op& op, const Y& y, const X&... x) {
  if constexpr (requires { op.flops(y, x...); }) {
    return op.flops(y, x...);
  } else {
    return y.elements();
  }
}

template <class Op, class Y, class... X>
constexpr std::int64_t gradient_flops(const Op& op, int wanted, const Y& y, const X&... x) {
  if constexpr (requires { op.gradient_flops(wanted, y, x...); }) {
    return op.gradient_flops(wanted, y, x...);
  } else {
    return wanted * flops(op, y, x...);
  }
}

template <class Op, class Y, class... X>
constexpr Index residual_bytes(const Op& op, const Y& y, const X&... x) {
  if constexpr (requires { op.residual_bytes(y, x...); }) {
    return op.residual_bytes(y, x...);
  } else {
    return 0;
  }
}

struct Nothing {};

/// What a node keeps of operand `I`: its extents, itself if the pullback reads it, its gradient's slot if
/// tracked.
template <int I, TensorType X, bool IsSaved, bool Tracked>
struct NodeInput {
  static constexpr bool tracked = Tracked;
  View<const typename X::Element, X::rank> extents;
  [[no_unique_address]] std::conditional_t<IsSaved, Kept<X>, Nothing> saved;
  [[no_unique_address]] std::conditional_t<Tracked, SlotFor<X>, Nothing> slot;

  template <class Source>
  constexpr explicit NodeInput(const Source& x) : extents(value_of(x).view()) {
    extents.data = nullptr;
    if constexpr (IsSaved) saved = kept(x);
    if constexpr (Tracked) slot = OperandTraits<Source>::slot(x);
  }
  /// Has the saved value at hand.
  constexpr void fetch() {
    if constexpr (IsSaved) {
      const X& value = saved.value();
      if constexpr (!X::MeshOf::dry) extents.data = value.data();
    }
  }
};

/// Where the gradient of one operand is being computed: in its slot, if the kernel can add to what is there.
/// A gradient that is the result's own is not computed at all; but a parameter gets a copy, because
/// optimizers may write to it.
template <class NodeInputType, TensorType X>
class GradientTarget {
 public:
  constexpr GradientTarget(const NodeInputType& input, const typename X::MeshOf& mesh, bool op_accumulates,
                           bool op_passes) {
    if constexpr (NodeInputType::tracked) {
      handed_on_ = op_passes && input.slot->use() == MemoryUse::activation;
      if (handed_on_) return;
      in_slot_ = op_accumulates && input.slot->writable();
      if (in_slot_) {
        fresh_ = input.slot->gradient();
      } else {
        fresh_ = cotangent_of<X>(mesh, input.extents.shape, input.slot->use());
      }
    }
  }
  constexpr Input<typename X::Element, X::rank> argument(const NodeInputType& input) const {
    Input<typename X::Element, X::rank> result{input.extents};
    if constexpr (NodeInputType::tracked) {
      if (!handed_on_) result.gradient = fresh_.writable().data;
      result.accumulate = in_slot_;
    }
    return result;
  }
  template <class Gradient>
  constexpr void deliver(const NodeInputType& input, const Gradient& of_result) {
    if constexpr (NodeInputType::tracked) {
      if (handed_on_) {
        if constexpr (std::is_same_v<Gradient, cotangent_of<X>>) input.slot->add(of_result);
      } else if (!in_slot_) {
        input.slot->add(std::move(fresh_));
      }
    }
  }

 private:
  std::conditional_t<NodeInputType::tracked, cotangent_of<X>, Nothing> fresh_;
  bool in_slot_ = false;
  bool handed_on_ = false;
};

template <class Op, TensorType Y, class Indices, class... Inputs>
class OpNode;

template <class Op, TensorType Y, std::size_t... I, int... J, TensorType... X, bool... IsSaved,
          bool... Tracked>
class OpNode<Op, Y, std::index_sequence<I...>, NodeInput<J, X, IsSaved, Tracked>...> final
    : public TapeNode,
      private NodeInput<J, X, IsSaved, Tracked>... {
 public:
  template <class... Sources>
  constexpr OpNode(const Op& op, const Y& y, Buffer residual, SlotFor<Y> result_slot,
                   const Sources&... sources)
      : NodeInput<J, X, IsSaved, Tracked>(sources)...,
        op_(op),
        mesh_(y.mesh()),
        extents_(y.view()),
        residual_(std::move(residual)),
        slot_(std::move(result_slot)) {
    extents_.data = nullptr;
    if constexpr (Op::saved.output) {
      output_ = y;
      if constexpr (!Y::MeshOf::dry) extents_.data = y.data();
    }
  }

  constexpr void pull_back() override {
    if (!slot_->filled()) return;
    auto dy = slot_->take();
    (static_cast<NodeInput<J, X, IsSaved, Tracked>&>(*this).fetch(), ...);
    pull_back(dy, GradientTarget<NodeInput<J, X, IsSaved, Tracked>, X>(
                      static_cast<NodeInput<J, X, IsSaved, Tracked>&>(*this), mesh_, accumulates<Op>,
                      passes<Op, J> && std::is_same_v<cotangent_of<X>, cotangent_of<Y>>)...);
  }

 private:
  template <class... Targets>
  constexpr void pull_back(const cotangent_of<Y>& dy, Targets... targets) {
    if (auto* recorder = mesh_.recorder()) {
      recorder->compute(gradient_flops(op_, (int{Tracked} + ...), extents_,
                                       static_cast<NodeInput<J, X, IsSaved, Tracked>&>(*this).extents...));
    }
    if constexpr (!Y::MeshOf::dry) {
      op_.pull_back(dy.view(), extents_, residual_ ? residual_.data() : nullptr,
                    targets.argument(static_cast<NodeInput<J, X, IsSaved, Tracked>&>(*this))...);
    }
    (targets.deliver(static_cast<NodeInput<J, X, IsSaved, Tracked>&>(*this), dy), ...);
  }

  Op op_;
  typename Y::MeshOf mesh_;
  View<const typename Y::Element, Y::rank> extents_;
  [[no_unique_address]] std::conditional_t<Op::saved.output, Y, Nothing> output_;
  Buffer residual_;
  SlotFor<Y> slot_;
};

template <class Op, TensorType Y, std::size_t... I, class... Sources>
constexpr void record(std::index_sequence<I...>, const Op& op, const Y& y, Buffer residual,
                      const SlotFor<Y>& slot, const Sources&... sources) {
  using Node = OpNode<Op, Y, std::index_sequence<I...>,
                      NodeInput<static_cast<int>(I), tensor_of<Sources>, (Op::saved.inputs >> I & 1u) != 0,
                                OperandTraits<Sources>::tracked>...>;
  common_tape(sources...).template record<Node>(op, y, std::move(residual), slot, sources...);
}

/// The result of an operation, and what its pullback will read besides.
template <TensorType Y>
struct Evaluated {
  Y y;
  Buffer residual;
};
template <TensorType Y, class Op, TensorType... X>
constexpr Evaluated<Y> evaluate(const Op& op, const X&... x) {
  const auto& mesh = std::get<0>(std::tie(x...)).mesh();
  Y y(mesh, op.shape(x.shape()...));
  Buffer residual;
  const Index bytes = residual_bytes(op, y.view(), x.view()...);
  if (bytes > 0) residual = Buffer::allocate(mesh, bytes);
  if (auto* recorder = mesh.recorder()) recorder->compute(flops(op, y.view(), x.view()...));
  if constexpr (!Y::MeshOf::dry) {
    op.forward(y.writable(), residual ? residual.data() : nullptr, x.view()...);
  }
  return {std::move(y), std::move(residual)};
}

/// The recipe of an operation's result.
template <class Op, TensorType Y, TensorType... X>
class OpRecipe final : public Recipe<Y> {
 public:
  constexpr explicit OpRecipe(const Op& op, const Kept<X>&... x) : op_(op), operands_(x...) {}

 private:
  constexpr Y compute() override {
    return std::apply([&](const auto&... x) { return evaluate<Y>(op_, x.value()...).y; }, operands_);
  }

  Op op_;
  std::tuple<Kept<X>...> operands_;
};

}  // namespace detail

/// Of abstract operands: what would come of it.
template <class Op, Operand... X, AbstractOperand Y = result_of<Op, X...>>
constexpr Y apply(const Op&, const X&...) {
  return {};
}

/// Runs `op`. The result is a tensor; or a `Var` if an operand is on a tape.
template <class Op, Operand... X, TensorType Y = result_of<Op, X...>>
constexpr auto apply(const Op& op, const X&... x) {
  const auto& mesh = std::get<0>(std::tie(value_of(x)...)).mesh();
  if (!((value_of(x).mesh() == mesh) && ...)) {
    throw std::invalid_argument("the operands live on two different meshes of one type");
  }
  auto [y, residual] = detail::evaluate<Y>(op, value_of(x)...);
  if constexpr (!any_on_tape<X...>) {
    return std::move(y);
  } else if constexpr (!any_tracked<X...>) {
    return Var<Y, false>(common_tape(x...), std::move(y));
  } else {
    auto slot = SlotFor<Y>::make();
    detail::record(std::make_index_sequence<sizeof...(X)>(), op, y, std::move(residual), slot, x...);
    RecipeFor<Y> recipe;
    if constexpr (detail::recomputed<Op>) {
      recipe = RecipeFor<Y>::template make<detail::OpRecipe<Op, Y, tensor_of<X>...>>(op, kept(x)...);
    }
    return Var<Y>(common_tape(x...), std::move(y), std::move(slot), std::move(recipe));
  }
}

}  // namespace shardwise
