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
  constexpr explicit NodeInput(const Source& x)
      : extents(value_of(x).view()), saved(saved_of(x)), slot(slot_of(x)) {
    extents.data = nullptr;
  }
  constexpr Index bytes() const { return extents.elements() * static_cast<Index>(sizeof(Element)); }
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
      OperandTraits<Source>::slot(x)->expect();
      return OperandTraits<Source>::slot(x);
    } else {
      return Nothing();
    }
  }
};

enum class OperandKind : std::uint8_t { untracked, parameter, value };

/// Where the gradient of one operand is being computed: in its slot, if the kernel can add to what is there.
/// A gradient that is the result's own is not computed at all; but a parameter gets a copy, because
/// optimizers may write to it.
class GradientTarget {
 public:
  constexpr GradientTarget(Nothing, const Buffer&, Index, Recorder*, bool, bool) {}  // none is wanted
  /// `bytes`: of the gradient; `dy`: the gradient of the result.
  [[gnu::noinline]] constexpr GradientTarget(const Shared<GradientSlot>& slot, const Buffer& dy, Index bytes,
                                             Recorder* recorder, bool op_accumulates, bool op_passes)
      : slot_(&*slot), passed_on_(op_passes && slot->use() == MemoryUse::activation) {
    if (passed_on_) return;
    in_slot_ = op_accumulates && slot->writable();
    if (in_slot_) {
      block_ = slot->sum();
    } else {
      block_ = allocate_buffer(dy, recorder, bytes, slot->use());
    }
  }
  /// Of what kind of operand it is, if a gradient is wanted of it.
  constexpr OperandKind kind() const {
    if (!slot_) return OperandKind::untracked;
    return slot_->use() == MemoryUse::activation ? OperandKind::value : OperandKind::parameter;
  }
  template <class T, int Rank>
  constexpr Input<T, Rank> argument(const View<const T, Rank>& extents, bool now) const {
    return {extents, now && block_ ? static_cast<T*>(block_->data) : nullptr, in_slot_};
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

  constexpr void pull_back() override {
    const Buffer dy = slot_->pass();
    if (!dy) return;
    (Numbered<I, Inputs>::value.fetch(), ...);
    Recorder* recorder = mesh_.recorder();
    if constexpr (leaves_gradient<Op>) {
      if (leaves(dy, Numbered<I, Inputs>::value...)) return;
    }
    pull_back(dy, recorder,
              GradientTarget(Numbered<I, Inputs>::value.slot, dy, Numbered<I, Inputs>::value.bytes(),
                             recorder, accumulates<Op>, passes<Op, I> && same_gradient<Inputs>)...);
  }

 private:
  static_assert(((!Inputs::tracked || std::is_same_v<typename Inputs::Element, typename Y::Element>)&&...));
  template <class In>
  static constexpr bool same_gradient = std::is_same_v<cotangent_of<typename In::TensorOf>, cotangent_of<Y>>;

  /// Does the operation leave the gradient of its last operand another way?
  template <class Ids, class Table>
  constexpr bool leaves(const Buffer& dy, const Ids& ids, const Table& table) const {
    if constexpr (Table::tracked) {
      if (!op_.template leave<typename Table::TensorOf>(gradient_of<Y>(mesh_, extents_.shape, dy),
                                                        ids.saved.value(), table.extents, *table.slot)) {
        return false;
      }
      table.slot->settle();
      return true;
    } else {
      return false;
    }
  }

  template <class... Targets>
  constexpr void pull_back(const Buffer& dy, Recorder* recorder, Targets... targets) {
    if (recorder) {
      recorder->compute(
          gradient_flops(op_, (int{Inputs::tracked} + ...), extents_, Numbered<I, Inputs>::value.extents...));
    }
    if constexpr (parameters_first<Op>) {
      compute(dy, recorder, OperandKind::parameter, targets...);
      compute(dy, recorder, OperandKind::value, targets...);
    } else {
      compute(dy, recorder, OperandKind::untracked, targets...);
    }
  }
  /// The gradients of one kind of operands, or of all.
  template <class... Targets>
  constexpr void compute(const Buffer& dy, Recorder* recorder, OperandKind of, Targets&... targets) {
    const bool all = of == OperandKind::untracked;
    if (!all && ((targets.kind() != of) && ...)) return;
    if constexpr (!Y::MeshOf::dry) {
      auto gradient = extents_;
      gradient.data = static_cast<const typename Y::Element*>(dy->data);
      op_.pull_back(gradient, extents_, residual_ ? residual_->data : nullptr,
                    targets.argument(Numbered<I, Inputs>::value.extents, all || targets.kind() == of)...);
    }
    ((all || targets.kind() == of ? targets.deliver(dy, element_sum<typename Y::Element>, recorder) : void()),
     ...);
  }

  Op op_;
  typename Y::MeshOf mesh_;
  View<const typename Y::Element, Y::rank> extents_;
  [[no_unique_address]] std::conditional_t<Op::saved.output, Y, Nothing> output_;
  Buffer residual_;
  Shared<GradientSlot> slot_;
};

}  // namespace shardwise::detail
