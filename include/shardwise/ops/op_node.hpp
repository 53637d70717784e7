// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What `apply` leaves on a tape: the node that computes the operands' gradients.

#include <shardwise/autograd/operand.hpp>
#include <shardwise/ops/operation.hpp>

namespace shardwise::detail {

struct Nothing {};

/// What a node keeps of an operand: its extents, itself if the pullback reads it, its gradient's slot if tracked.
template <TensorType X, bool IsSaved, bool Tracked>
struct NodeInput {
  static constexpr bool tracked = Tracked;
  using TensorOf = X;

  View<const typename X::Element, X::rank> extents;
  [[no_unique_address]] std::conditional_t<IsSaved, Kept<X>, Nothing> saved;
  [[no_unique_address]] std::conditional_t<Tracked, SlotFor<X>, Nothing> slot;

  template <class Source>
  constexpr explicit NodeInput(const Source& x)
      : extents(value_of(x).view()), saved(saved_of(x)), slot(slot_of(x)) {
    extents.data = nullptr;
  }
  /// Has the saved value at hand.
  constexpr void fetch() {
    if constexpr (IsSaved) {
      const X& value = saved.value();
      if constexpr (!X::MeshOf::dry) extents.data = value.data();
    }
  }

 private:
  template <class Source>
  static constexpr auto saved_of([[maybe_unused]] const Source& x) {
    if constexpr (IsSaved) {
      return kept(x);
    } else {
      return Nothing();
    }
  }
  template <class Source>
  static constexpr auto slot_of([[maybe_unused]] const Source& x) {
    if constexpr (Tracked) {
      return OperandTraits<Source>::slot(x);
    } else {
      return Nothing();
    }
  }
};

/// Where the gradient of one operand is being computed: in its slot, if the kernel can add to what is there.
/// A gradient that is the result's own is not computed at all; but a parameter gets a copy, because
/// optimizers may write to it.
template <TensorType X>
class GradientTarget {
 public:
  using Gradient = cotangent_of<X>;

  constexpr GradientTarget(const SlotFor<X>& slot, const Shape<X::rank>& shape,
                           const typename X::MeshOf& mesh, bool op_accumulates, bool op_passes)
      : slot_(*slot), handed_on_(op_passes && slot_.use() == MemoryUse::activation) {
    if (handed_on_) return;
    in_slot_ = op_accumulates && slot_.writable();
    if (in_slot_) {
      fresh_ = slot_.gradient();
    } else {
      fresh_ = Gradient(mesh, shape, slot_.use());
    }
  }
  constexpr Input<typename X::Element, X::rank> argument(
      const View<const typename X::Element, X::rank>& extents) const {
    return {extents, handed_on_ ? nullptr : fresh_.writable().data, in_slot_};
  }
  template <class OfResult>
  constexpr void deliver(const OfResult& of_result) {
    if (handed_on_) {
      if constexpr (std::is_same_v<OfResult, Gradient>) slot_.add(of_result);
    } else if (!in_slot_) {
      slot_.add(std::move(fresh_));
    }
  }

 private:
  GradientSlot<Gradient>& slot_;
  Gradient fresh_;
  bool handed_on_;
  bool in_slot_ = false;
};

/// The same where no gradient is wanted.
template <TensorType X>
struct NoGradientTarget {
  constexpr NoGradientTarget(Nothing, const Shape<X::rank>&, const typename X::MeshOf&, bool, bool) {}
  constexpr Input<typename X::Element, X::rank> argument(
      const View<const typename X::Element, X::rank>& extents) const {
    return {extents};
  }
  constexpr void deliver(const auto&) {}
};

/// Number `I` of several bases.
template <int I, class T>
struct Numbered {
  T value;
  template <class Source>
  constexpr explicit Numbered(const Source& source) : value(source) {}
};

template <class Op, TensorType Y, class Numbers, class... Inputs>
class OpNode;

template <class Op, TensorType Y, int... I, class... Inputs>
class OpNode<Op, Y, std::integer_sequence<int, I...>, Inputs...> final : public TapeNode,
                                                                         private Numbered<I, Inputs>... {
 public:
  template <class... Sources>
  constexpr OpNode(const Op& op, const Y& y, Buffer residual, const SlotFor<Y>& slot, const Sources&... x)
      : Numbered<I, Inputs>(x)...,
        op_(op),
        mesh_(y.mesh()),
        extents_(y.view()),
        residual_(std::move(residual)),
        slot_(slot) {
    extents_.data = nullptr;
    if constexpr (Op::saved.output) {
      output_ = y;
      if constexpr (!Y::MeshOf::dry) extents_.data = y.data();
    }
  }

  constexpr void pull_back() override {
    if (!slot_->filled()) return;
    const auto dy = slot_->take();
    (Numbered<I, Inputs>::value.fetch(), ...);
    pull_back(dy, Target<Inputs>(Numbered<I, Inputs>::value.slot, Numbered<I, Inputs>::value.extents.shape,
                                 mesh_, accumulates<Op>, passes<Op, I> && same_gradient<Inputs>)...);
  }

 private:
  template <class In>
  using Target = std::conditional_t<In::tracked, GradientTarget<typename In::TensorOf>,
                                    NoGradientTarget<typename In::TensorOf>>;
  template <class In>
  static constexpr bool same_gradient = std::is_same_v<cotangent_of<typename In::TensorOf>, cotangent_of<Y>>;

  constexpr void pull_back(const cotangent_of<Y>& dy, Target<Inputs>... targets) {
    if (auto* recorder = mesh_.recorder()) {
      recorder->compute(
          gradient_flops(op_, (int{Inputs::tracked} + ...), extents_, Numbered<I, Inputs>::value.extents...));
    }
    if constexpr (!Y::MeshOf::dry) {
      op_.pull_back(dy.view(), extents_, residual_ ? residual_.data() : nullptr,
                    targets.argument(Numbered<I, Inputs>::value.extents)...);
    }
    (targets.deliver(dy), ...);
  }

  Op op_;
  typename Y::MeshOf mesh_;
  View<const typename Y::Element, Y::rank> extents_;
  [[no_unique_address]] std::conditional_t<Op::saved.output, Y, Nothing> output_;
  Buffer residual_;
  SlotFor<Y> slot_;
};

}  // namespace shardwise::detail
