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
  using Element = typename X::Element;

  View<const Element, X::rank> extents;
  [[no_unique_address]] std::conditional_t<IsSaved, Kept<X>, Nothing> saved;
  [[no_unique_address]] std::conditional_t<Tracked, Shared<GradientSlot>, Nothing> slot;

  template <class Source>
  constexpr explicit NodeInput(const Source& x) : extents(value_of(x).view()) {
    extents.data = nullptr;
    if constexpr (IsSaved) saved = kept(x);
    if constexpr (Tracked) {
      slot = slot_of(x);
      slot->expect();
    }
  }
  constexpr Index bytes() const { return extents.elements() * static_cast<Index>(sizeof(Element)); }
  /// Has the saved value at hand.
  constexpr void fetch() {
    if constexpr (IsSaved) {
      const X& value = saved.value();
      if constexpr (!X::MeshOf::dry) extents.data = value.data();
    }
  }
};

/// Of which operands gradients are wanted.
enum class OperandKind : std::uint8_t { all, parameter, value };

/// Where the gradient of one operand is being computed: in its slot, if the kernel can add to what is there.
/// A gradient that is the result's own is not computed at all; but a parameter gets a copy, because
/// optimizers may write to it.
class GradientTarget {
 public:
  constexpr GradientTarget(Nothing, const Buffer&, Index, Recorder*, bool, bool,
                           OperandKind = OperandKind::all) {}
  /// `bytes`: of the gradient; `dy`: the gradient of the result; `wanted`: of what kind of operands.
  [[gnu::noinline]] constexpr GradientTarget(const Shared<GradientSlot>& slot, const Buffer& dy, Index bytes,
                                             Recorder* recorder, bool op_accumulates, bool op_passes,
                                             OperandKind wanted = OperandKind::all) {
    const OperandKind kind =
        slot->use() == MemoryUse::activation ? OperandKind::value : OperandKind::parameter;
    if (wanted != OperandKind::all && wanted != kind) return;
    slot_ = &*slot;
    passed_on_ = op_passes && kind == OperandKind::value;
    if (passed_on_) return;
    in_slot_ = op_accumulates && slot->writable();
    if (in_slot_) {
      block_ = slot->sum();
    } else {
      block_ = allocate_buffer(dy, recorder, bytes, slot->use());
    }
  }
  constexpr bool wanted() const { return slot_ != nullptr; }
  template <class T, int Rank>
  constexpr Input<T, Rank> argument(const View<const T, Rank>& extents) const {
    return {extents, block_ ? static_cast<T*>(block_->data) : nullptr, in_slot_};
  }
  [[gnu::noinline]] constexpr void deliver(const Buffer& dy, const ElementSum& elements, Recorder* recorder) {
    if (!slot_) return;
    if (in_slot_) {
      block_ = Buffer();
    } else if (passed_on_) {
      slot_->add(dy, elements, recorder);
    } else {
      slot_->add(std::move(block_), elements, recorder);
    }
    slot_->settle();
  }

 private:
  GradientSlot* slot_ = nullptr;
  Buffer block_;
  bool passed_on_ = false;
  bool in_slot_ = false;
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
  constexpr OpNode(const Op& op, const Y& y, Buffer residual, const Shared<GradientSlot>& slot,
                   const Sources&... x)
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

  constexpr bool pull_back(BackwardPart part) override {
    if (part == BackwardPart::parameters) {
      give_parameters(left_);
      return false;
    }
    const Buffer dy = slot_->pass();
    if (!dy) return false;
    (Numbered<I, Inputs>::value.fetch(), ...);
    if (auto* recorder = mesh_.recorder()) {
      recorder->compute(gradient_flops(op_, ((unsigned{Inputs::tracked} << I) | ...), extents_,
                                       Numbered<I, Inputs>::value.extents...));
    }
    if (part == BackwardPart::inputs && (is_parameter(Numbered<I, Inputs>::value.slot) || ...)) {
      compute(dy, OperandKind::value);
      left_ = dy;
      return true;
    }
    if constexpr (requires { requires Op::parameters_first; } || leaves_gradient) {
      give_parameters(dy);
      compute(dy, OperandKind::value);
    } else {
      compute(dy, OperandKind::all);
    }
    return false;
  }

 private:
  static_assert(((!Inputs::tracked || std::is_same_v<typename Inputs::Element, typename Y::Element>)&&...));
  static constexpr bool leaves_gradient = requires { requires Op::leaves_gradient; };
  template <class In>
  static constexpr bool same_gradient = std::is_same_v<cotangent_of<typename In::TensorOf>, cotangent_of<Y>>;

  /// Does the operation leave the gradient of its last operand another way?
  template <class Ids, class Table>
  constexpr bool leaves(const Buffer& dy, const Ids& ids, const Table& table) const {
    const bool left = op_.template leave<typename Table::TensorOf>(
        gradient_of<Y>(mesh_, extents_.shape, dy), ids.saved.value(), table.extents, *table.slot);
    if (left) table.slot->settle();
    return left;
  }

  constexpr void give_parameters(const Buffer& dy) {
    if constexpr (leaves_gradient) {
      if (leaves(dy, Numbered<I, Inputs>::value...)) return;
    }
    compute(dy, OperandKind::parameter);
  }
  /// The gradients of one kind of operands, or of all.
  constexpr void compute(const Buffer& dy, OperandKind wanted) {
    Recorder* recorder = mesh_.recorder();
    compute(dy, recorder,
            GradientTarget(
                Numbered<I, Inputs>::value.slot, dy, Numbered<I, Inputs>::value.bytes(), recorder,
                requires { requires Op::accumulates; }, passes<Op, I> && same_gradient<Inputs>, wanted)...);
  }
  template <class... Targets>
  constexpr void compute(const Buffer& dy, Recorder* recorder, Targets... targets) {
    if (!(targets.wanted() || ...)) return;
    if constexpr (!Y::MeshOf::dry) {
      auto gradient = extents_;
      gradient.data = static_cast<const typename Y::Element*>(dy->data);
      op_.pull_back(gradient, extents_, residual_ ? residual_->data : nullptr,
                    targets.argument(Numbered<I, Inputs>::value.extents)...);
    }
    (targets.deliver(dy, element_sum<typename Y::Element>, recorder), ...);
  }
  static constexpr bool is_parameter(Nothing) { return false; }
  static constexpr bool is_parameter(const Shared<GradientSlot>& slot) {
    return slot->use() != MemoryUse::activation;
  }

  Op op_;
  typename Y::MeshOf mesh_;
  View<const typename Y::Element, Y::rank> extents_;
  [[no_unique_address]] std::conditional_t<Op::saved.output, Y, Nothing> output_;
  Buffer residual_;
  Buffer left_;  ///< the gradient of the result, as long as parameters wait for theirs
  ResultSlot slot_;
};

}  // namespace shardwise::detail
