// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What is on a tape: a tensor, as a `Var`, and the nodes of the backward pass.

#include <shardwise/autograd/recipe.hpp>
#include <shardwise/autograd/slot.hpp>

namespace shardwise {

class Tape;

/// A tensor on a tape. `Tracked` is false where no gradient is wanted or possible.
template <TensorType X, bool Tracked = true>
class Var : public detail::OtherNames {
 public:
  using TensorOf = X;
  static constexpr bool tracked = Tracked;
  static_assert(!Tracked || X::is_float, "only tensors of floating-point numbers have gradients");

  constexpr Var(Tape& tape, X&& value) requires(!Tracked) : tape_(&tape), value_(std::move(value)) {}
  constexpr Var(Tape& tape, X&& value, Shared<GradientSlot>&& slot,
                Shared<Recipe>&& recipe = {}) requires(Tracked)
      : tape_(&tape), value_(std::move(value)), slot_(std::move(slot)), recipe_(std::move(recipe)) {}

  template <IllFormed Why = layout_error<Reason::cannot_assign_tracked_to_untracked, Got<X>>>
  // NOLINTNEXTLINE(misc-unconventional-assign-operator)
  Why operator=(const Var<X, true>&) requires(!Tracked);  // see Why

  /// The tensor, which the tape does not change; and its tape, mesh and global extents.
  constexpr const X& value() const { return value_; }
  /// The value of a `Var` that is given up, so that its memory can be reused.
  constexpr X release() && { return std::move(value_); }
  constexpr Tape& tape() const { return *tape_; }
  constexpr const auto& mesh() const { return value_.mesh(); }
  constexpr const auto& shape() const { return value_.shape(); }

  /// After `backward`: the gradient of an `input`; an empty tensor if the loss does not depend on it. Throws
  /// `std::logic_error` if the `Var` was moved from.
  constexpr cotangent_of<X> gradient() const requires(Tracked) {
    if (!slot_) throw std::logic_error("gradient: the Var was moved from: ask the one that it was moved to");
    return detail::gradient_of<X>(value_.mesh(), value_.shape(), slot_->sum());
  }
  constexpr const Shared<GradientSlot>& slot() const requires(Tracked) { return slot_; }
  /// How nodes that need the value later compute it again; none if they keep it.
  constexpr const Shared<Recipe>& recipe() const requires(Tracked) { return recipe_; }

 private:
  struct None {};
  Tape* tape_;
  X value_;
  [[no_unique_address]] std::conditional_t<Tracked, Shared<GradientSlot>, None> slot_;
  [[no_unique_address]] std::conditional_t<Tracked, Shared<Recipe>, None> recipe_;
};

/// Whether `X` is a `Var`.
template <class X>
inline constexpr bool is_var = false;
template <class X, bool Tracked>
inline constexpr bool is_var<Var<X, Tracked>> = true;

/// The part of a backward pass: all; or first the gradients of activations and inputs, then those of the parameters
/// (Qi et al., "Zero bubble pipeline parallelism", 2023: the passes B and W).
enum class BackwardPart : std::uint8_t { all, inputs, parameters };

/// An operation on the tape: it pulls the gradient of its result back to its operands.
class TapeNode : public Pooled<TapeNode> {
 public:
  /// For the part `inputs`, a node may postpone gradients of parameters. It returns whether it does; if so, it is
  /// called again for the part `parameters`.
  constexpr virtual bool pull_back(BackwardPart part) = 0;
  /// Whether `Tape` may pull it back in two parts within one pass.
  constexpr virtual bool may_postpone() const { return false; }

 private:
  friend class Tape;
  TapeNode* previous_ = nullptr;
  int module_ = -1;  ///< whose call recorded it, if that was recorded
};

/// A node whose pullback is a function object.
template <class F>
class PullbackNode final : public TapeNode {
 public:
  /// `pullback(part)` returns whether the node is finished.
  constexpr explicit PullbackNode(F pullback) : pullback_(std::move(pullback)) {}
  constexpr bool pull_back(BackwardPart part) override { return pullback_(part); }

 private:
  F pullback_;
};

/// Work on gradients beside a backward pass, complete when the pass ends.
class BackwardTask : public Pooled<BackwardTask> {
 public:
  /// The backward pass calls it at its end.
  constexpr virtual void finish() = 0;
};

namespace detail {

/// The gradient of `factor` times a scalar of type `X` with respect to the scalar.
template <TensorType X>
constexpr cotangent_of<X> gradient_of_itself(const typename X::MeshOf& mesh, double factor = 1) {
  cotangent_of<X> gradient(mesh, {});
  if (!mesh.dry()) *gradient.writable().data = static_cast<typename X::Element>(factor);
  return gradient;
}

}  // namespace detail

}  // namespace shardwise
