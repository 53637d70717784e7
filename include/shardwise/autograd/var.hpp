// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `Var`, a tensor on a tape.

#include <shardwise/layout/diagnosis.hpp>

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

}  // namespace shardwise
