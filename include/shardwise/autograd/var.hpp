// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `Var`, a tensor on a tape; and what can be differentiated.

#include <shardwise/layout/diagnosis.hpp>

#include <shardwise/autograd/recipe.hpp>
#include <shardwise/autograd/slot.hpp>
#include <shardwise/layout/propagation.hpp>

namespace shardwise {

class Tape;

/// A tensor on a tape. `Tracked` is false where no gradient is wanted or possible.
template <TensorType X, bool Tracked = true>
class Var {
 public:
  using TensorOf = X;
  static constexpr bool tracked = Tracked;
  static_assert(!Tracked || X::is_float, "only tensors of floating-point numbers have gradients");

  constexpr Var(Tape& tape, X value) requires(!Tracked) : tape_(&tape), value_(std::move(value)) {}
  constexpr Var(Tape& tape, X value, Shared<GradientSlot> slot, Shared<Recipe> recipe = {}) requires(Tracked)
      : tape_(&tape), value_(std::move(value)), slot_(std::move(slot)), recipe_(std::move(recipe)) {}

  template <IllFormed Why = layout_error<Reason::value_without_a_gradient_becomes_one_with, Got<X>>>
  // NOLINTNEXTLINE(misc-unconventional-assign-operator)
  Why operator=(const Var<X, true>&) requires(!Tracked);  // see Why

  constexpr const X& value() const { return value_; }
  /// The value of a `Var` that is given up, so that its memory can be reused.
  constexpr X release() && { return std::move(value_); }
  constexpr Tape& tape() const { return *tape_; }
  constexpr const auto& mesh() const { return value_.mesh(); }
  constexpr const auto& shape() const { return value_.shape(); }

  /// After `backward`: the gradient of an `input`; an empty tensor if the loss does not depend on it.
  constexpr cotangent_of<X> gradient() const requires(Tracked) {
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

namespace detail {

template <class X>
constexpr Reason why_no_loss() {
  if (X::rank != 0) return Reason::loss_is_not_a_scalar;
  for (int axis = 0; axis < X::layout.axes; ++axis) {
    if (X::layout[axis] != replicate) return Reason::loss_is_not_the_same_finished_value_on_every_rank;
  }
  return Reason::none;
}

/// `void` if `Loss` can be differentiated, else the `LayoutError` that says why not.
template <class Loss>
struct LossProblem {
  using type = layout_error<Reason::loss_depends_on_nothing_that_has_a_gradient, Got<Loss>>;
};
template <class X>
struct LossProblem<Var<X>> {
  static constexpr Reason reason = why_no_loss<X>();
  using type = std::conditional_t<reason == Reason::none, void, layout_error<reason, Got<X>>>;
};

/// `void` if a `Dy` can be the gradient of a `Y`, else the `LayoutError` that says why not: it must lie as
/// the terms that it is added to.
template <class Y, TensorType Dy>
struct GradientProblem : LossProblem<Y> {};
template <class X, TensorType Dy>
struct GradientProblem<Var<X>, Dy> {
  using Wanted = cotangent_of<X>;

  static constexpr Reason reason(int axis) {
    const auto letters = Indices::range('a', X::rank);
    const auto sum = Signature::of(letters, letters, letters).linear_jointly();
    return propagate(sum, {Wanted::layout[axis], Dy::layout[axis]}).reason;
  }
  static constexpr int bad_axis() {
    for (int axis = 0; axis < X::layout.axes; ++axis) {
      if (reason(axis) != Reason::none) return axis;
    }
    return -1;
  }
  static constexpr auto type_of() {
    if constexpr (!has_cotangent(X::layout)) {
      return Refused<Reason::gradient_of_a_pending_maximum_or_minimum_is_not_defined, Got<X>>{};
    } else if constexpr (!std::is_same_v<typename X::MeshOf, typename Dy::MeshOf>) {
      return Refused<Reason::operands_live_on_different_meshes,
                     Got<typename X::MeshOf, typename Dy::MeshOf>>{};
    } else if constexpr (X::rank != Dy::rank) {
      return Refused<Reason::operands_do_not_fit_in_rank, Got<X, Dy>>{};
    } else if constexpr (!std::is_same_v<typename X::Element, typename Dy::Element>) {
      return Refused<Reason::operands_have_different_element_types,
                     Got<typename X::Element, typename Dy::Element>>{};
    } else if constexpr (bad_axis() >= 0) {
      constexpr int axis = bad_axis();
      return Refused<reason(axis), On<typename X::MeshOf::AxesOf::template at<axis>>,
                     Expected<placement_type<Wanted::layout[axis].code>>,
                     Got<placement_type<Dy::layout[axis].code>>>{};
    } else {
      return TypeIs<void>{};
    }
  }
  using type = typename decltype(type_of())::type;
};

}  // namespace detail

template <class X>
inline constexpr bool is_var = false;
template <class X, bool Tracked>
inline constexpr bool is_var<Var<X, Tracked>> = true;

}  // namespace shardwise
