// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The node that `apply` records on a tape. It computes the operands' gradients.

#include <shardwise/autograd/operand.hpp>
#include <shardwise/ops/operation.hpp>

namespace shardwise::detail {

struct Nothing {};

/// The part of an operand that a node keeps: its extents, its block if the pullback reads it, its gradient's slot if
/// there is one.
template <class T, int Rank>
struct NodeInput {
  View<const T, Rank> extents;
  Kept saved;
  Shared<GradientSlot> slot;

  constexpr NodeInput(const View<const T, Rank>& block, Kept&& kept_of_it,
                      const Shared<GradientSlot>& to = {})
      : extents(block), saved(std::move(kept_of_it)), slot(to) {
    extents.data = nullptr;
    if (slot) slot->expect();
  }
  constexpr Index bytes() const { return extents.elements() * static_cast<Index>(sizeof(T)); }
  /// Fetches the saved block, which a recipe may compute again.
  constexpr void fetch() {
    if (!saved) return;
    if (const void* data = saved.block()->data) extents.data = static_cast<const T*>(data);
  }
};
template <TensorOperand X>
constexpr auto node_input(const X& x, bool is_saved) {
  using T = tensor_of<X>;
  Kept saved;
  if (is_saved) saved = kept(x);  // an `if`, because g++ 12 miscounts the handles of `?:` in constants
  return NodeInput<typename T::Element, T::rank>(value_of(x).view(), std::move(saved), slot_of(x));
}

/// The operands whose gradients are wanted.
enum class OperandKind : std::uint8_t { all, parameter, value };

/// The memory in which the gradient of one operand is computed: its slot, if the kernel can add to the gradient there.
/// A gradient that equals the result's is not computed; a parameter gets a copy, because optimizers may write to it.
class GradientTarget {
 public:
  /// `bytes`: the gradient's size; `dy`: the gradient of the result; `wanted`: the kind of operands.
  constexpr GradientTarget(const Shared<GradientSlot>& slot, const Buffer& dy, Index bytes,
                           Recorder* recorder, bool op_accumulates, bool op_passes,
                           OperandKind wanted = OperandKind::all) {
    if (slot) aim(*slot, dy, bytes, recorder, op_accumulates, op_passes, wanted);
  }
  constexpr bool wanted() const { return slot_ != nullptr; }
  template <class T, int Rank>
  constexpr Input<T, Rank> argument(const View<const T, Rank>& extents) const {
    return {extents, block_ ? static_cast<T*>(block_->data) : nullptr, in_slot_};
  }
  constexpr void deliver(const Buffer& dy, const ElementSum& elements, Recorder* recorder) {
    if (slot_) deliver_wanted(dy, elements, recorder);
  }

 private:
  constexpr void aim_here(GradientSlot& into, const Buffer& dy, Index bytes, Recorder* recorder,
                          bool op_accumulates, bool op_passes, OperandKind wanted) {
    const MemoryUse use = into.use();
    const OperandKind kind = use == MemoryUse::activation ? OperandKind::value : OperandKind::parameter;
    if (wanted != OperandKind::all && wanted != kind) return;
    slot_ = &into;
    passed_on_ = op_passes && kind == OperandKind::value;
    if (passed_on_) return;
    in_slot_ = op_accumulates && into.writable();
    if (in_slot_) {
      block_ = into.sum();
    } else {
      block_ = allocate_buffer(dy, recorder, bytes, use);
    }
  }
  SHARDWISE_ONCE(void, aim,
                 (GradientSlot & into, const Buffer& dy, Index bytes, Recorder* recorder, bool op_accumulates,
                  bool op_passes, OperandKind wanted),
                 (into, dy, bytes, recorder, op_accumulates, op_passes, wanted),
                 aim_here(into, dy, bytes, recorder, op_accumulates, op_passes, wanted))
  constexpr void deliver_here(const Buffer& dy, const ElementSum& elements, Recorder* recorder) {
    if (in_slot_) {
      block_ = Buffer();
    } else if (passed_on_) {
      slot_->add(dy, elements, recorder);
    } else {
      slot_->add(std::move(block_), elements, recorder);
    }
    slot_->settle();
  }
  SHARDWISE_ONCE(void, deliver_wanted, (const Buffer& dy, const ElementSum& elements, Recorder* recorder),
                 (dy, elements, recorder), deliver_here(dy, elements, recorder))

  GradientSlot* slot_ = nullptr;
  Buffer block_;
  bool passed_on_ = false;
  bool in_slot_ = false;
};

/// Number `I` of several bases.
template <int I, class T>
struct Numbered {
  T value;
};

/// The class depends neither on layouts nor on the mesh, so all uses of an operation on blocks of the same ranks
/// share it.
template <class Op, class Y, class Numbers, class... Inputs>
class OpNode;

template <class Op, class T, int Rank, int... I, class... Inputs>
class OpNode<Op, View<const T, Rank>, std::integer_sequence<int, I...>, Inputs...> final
    : public TapeNode,
      private Numbered<I, Inputs>... {
 public:
  /// `output`: the block of the result `y`; `passing`: the operands whose gradient is the result's.
  constexpr OpNode(const Op& op, const MeshHandle& mesh, const View<const T, Rank>& y, const Buffer& output,
                   Buffer&& residual, const Shared<GradientSlot>& slot, unsigned passing, Inputs&&... x)
      : Numbered<I, Inputs>{std::move(x)}...,
        op_(op),
        mesh_(mesh),
        extents_(y),
        residual_(std::move(residual)),
        slot_(slot),
        passing_(passing) {
    if constexpr (Op::saved.output) {
      output_ = output;
    } else {
      extents_.data = nullptr;
    }
  }

  constexpr bool may_postpone() const override { return true; }
  constexpr bool pull_back(BackwardPart part) override {
    if (part == BackwardPart::parameters) {
      give_parameters(left_);
      return false;
    }
    const Buffer dy = slot_->pass();
    if (!dy) return false;
    (Numbered<I, Inputs>::value.fetch(), ...);
    if (auto* recorder = mesh_->active_recorder()) {
      const unsigned tracked = ((unsigned{bool(Numbered<I, Inputs>::value.slot)} << I) | ...);
      recorder->compute(
          gradient_flops(op_, tracked, extents_, Numbered<I, Inputs>::value.extents...),
          dy->bytes +
              ((Numbered<I, Inputs>::value.bytes() * (Numbered<I, Inputs>::value.slot ? 2 : 1)) + ...),
          name_of_operation<Op>());
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
  static constexpr bool leaves_gradient = requires { requires Op::leaves_gradient; };

  constexpr void give_parameters(const Buffer& dy) {
    if constexpr (leaves_gradient) {
      if (op_.leave(MeshView(mesh_), extents_, dy, Numbered<I, Inputs>::value...)) return;
    }
    compute(dy, OperandKind::parameter);
  }
  /// The gradients of one kind of operands, or of all.
  constexpr void compute(const Buffer& dy, OperandKind wanted) {
    Recorder* recorder = mesh_->active_recorder();
    compute(dy, recorder,
            GradientTarget(
                Numbered<I, Inputs>::value.slot, dy, Numbered<I, Inputs>::value.bytes(), recorder,
                requires { requires Op::accumulates; }, (passing_ >> I & 1u) != 0, wanted)...);
  }
  template <class... Targets>
  constexpr void compute(const Buffer& dy, Recorder* recorder, Targets... targets) {
    if (!(targets.wanted() || ...)) return;
    if (!mesh_->dry) {
      auto gradient = extents_;
      gradient.data = static_cast<const T*>(dy->data);
      op_.pull_back(gradient, if_saved<Op::saved.output>(extents_), residual_ ? residual_->data : nullptr,
                    if_saved<(Op::saved.inputs >> I & 1u) != 0>(
                        targets.argument(Numbered<I, Inputs>::value.extents))...);
    }
    (targets.deliver(dy, element_sum<T>, recorder), ...);
  }
  template <bool Saved, class Block>
  static constexpr auto if_saved(const Block& block) {
    if constexpr (Saved) {
      return block;
    } else {
      return WithoutData<Block>{block};
    }
  }
  static constexpr bool is_parameter(const Shared<GradientSlot>& slot) {
    return slot && slot->use() != MemoryUse::activation;
  }

  Op op_;
  MeshHandle mesh_;
  View<const T, Rank> extents_;
  [[no_unique_address]] std::conditional_t<Op::saved.output, Buffer, Nothing> output_;
  Buffer residual_;
  Buffer left_;  ///< the gradient of the result, as long as parameters wait for theirs
  ResultSlot slot_;
  unsigned passing_;
};

}  // namespace shardwise::detail
