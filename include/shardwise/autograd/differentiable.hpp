// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Conditions for a loss and for the gradient of a result.

#include <shardwise/autograd/var.hpp>
#include <shardwise/layout/propagation.hpp>

namespace shardwise::detail {

template <class X>
constexpr Reason why_no_loss() {
  if (X::rank != 0) return Reason::loss_is_not_a_scalar;
  Reason why = Reason::none;
  for (int axis = 0; axis < X::layout.axes; ++axis) {
    if (X::layout[axis].is_partial()) return Reason::loss_is_not_the_same_finished_value_on_every_rank;
    if (X::layout[axis] == reduced) why = Reason::samples_are_not_sharded;
  }
  return why;
}

/// The hint for a loss without a gradient: a number, the model, or a tensor off the tape.
template <class Loss>
constexpr Hint hint_for_no_loss() {
  if (std::is_arithmetic_v<Loss>) return Hint::return_the_loss_itself_not_the_number_of_item;
  if (requires(Loss & model) { model.visit([](const char*, auto&) {}); })
    return Hint::pass_the_loss_first_and_then_the_model;
  return hint_for(Reason::loss_depends_on_nothing_that_has_a_gradient);
}
/// The hint for a loss that has a gradient.
template <class X>
constexpr Hint hint_for_bad_loss(Reason reason) {
  if (reason == Reason::loss_is_not_a_scalar && X::rank > 1)
    return Hint::pass_it_with_the_targets_to_a_loss_such_as_mse_loss_or_CrossEntropyLoss;
  return hint_for(reason);
}

/// `void` if `Loss` can be differentiated, else the `LayoutError` that says why not.
template <class Loss>
struct LossProblem : TypeIs<LayoutError<Reason::loss_depends_on_nothing_that_has_a_gradient, Got<Loss>,
                                        Cure<hint_for_no_loss<Loss>()>>> {};
template <>
struct LossProblem<Reported> : TypeIs<Reported> {};
template <class X>
struct LossProblem<Var<X>> {
  static constexpr Reason reason = why_no_loss<X>();
  using type = std::conditional_t<reason == Reason::none, void,
                                  LayoutError<reason, Got<X>, Cure<hint_for_bad_loss<X>(reason)>>>;
};

/// `void` if a `Dy` can be the gradient of a `Y`, else a `LayoutError`: it must have the layout of the terms that it
/// is added to.
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
      return Refused<Reason::operands_are_on_different_meshes,
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

}  // namespace shardwise::detail
