// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reverse-mode differentiation. A `Var` is a tensor on a tape; the type of its gradient follows from its
/// own.
///
/// ```
/// Tape tape;
/// auto loss = model(tape.constant(x));   // no gradient of x is wanted, and none is computed
/// tape.backward(loss);                   // now the parameters have their gradients
/// ```
/// `tape.input(x)` is for values whose gradient is wanted: `auto v = tape.input(x); …; v.gradient()`.
/// Without a tape, operations take and give plain tensors, and there is no trace of autograd in the run.

#include <type_traits>

#include <shardwise/layout/diagnosis.hpp>

#include <shardwise/autograd/recipe.hpp>
#include <shardwise/autograd/slot.hpp>

namespace shardwise {

class Tape;

/// What an operation leaves on the tape: how to pull the gradient of its result back to its operands.
class TapeNode {
 public:
  TapeNode() = default;
  TapeNode(const TapeNode&) = delete;
  TapeNode& operator=(const TapeNode&) = delete;

  constexpr virtual void pull_back() = 0;
  /// Ends the node's life; nodes live in the pool.
  constexpr virtual void destroy() = 0;

 protected:
  constexpr ~TapeNode() = default;

 private:
  friend class Tape;
  TapeNode* previous_ = nullptr;
};

/// A tensor on a tape. `Tracked` is false where no gradient is wanted or possible.
template <TensorType X, bool Tracked = true>
class Var {
 public:
  using TensorOf = X;
  static constexpr bool tracked = Tracked;
  static_assert(!Tracked || X::is_float, "only tensors of floating-point numbers have gradients");

  constexpr Var(Tape& tape, X value) requires(!Tracked) : tape_(&tape), value_(std::move(value)) {}
  constexpr Var(Tape& tape, X value, SlotFor<X> slot, RecipeFor<X> recipe = {}) requires(Tracked)
      : tape_(&tape), value_(std::move(value)), slot_(std::move(slot)), recipe_(std::move(recipe)) {}

  constexpr const X& value() const { return value_; }
  /// The value of a `Var` that is given up, so that its memory can be reused.
  constexpr X release() && { return std::move(value_); }
  constexpr Tape& tape() const { return *tape_; }
  constexpr const auto& mesh() const { return value_.mesh(); }
  constexpr const auto& shape() const { return value_.shape(); }

  /// After `backward`: the gradient of an `input`; an empty tensor if the loss does not depend on it.
  constexpr const cotangent_of<X>& gradient() const requires(Tracked) { return slot_->gradient(); }
  constexpr const SlotFor<X>& slot() const requires(Tracked) { return slot_; }
  /// How nodes that need the value later compute it again; none if they keep it.
  constexpr const RecipeFor<X>& recipe() const requires(Tracked) { return recipe_; }

 private:
  struct None {};
  Tape* tape_;
  X value_;
  [[no_unique_address]] std::conditional_t<Tracked, SlotFor<X>, None> slot_;
  [[no_unique_address]] std::conditional_t<Tracked, RecipeFor<X>, None> recipe_;
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
  using type = LayoutError<Reason::loss_depends_on_nothing_that_has_a_gradient, Got<Loss>,
                           Cure<Hint::put_its_inputs_on_the_tape_with_input_or_constant>>;
};
template <class X>
struct LossProblem<Var<X>> {
  static constexpr Reason reason = why_no_loss<X>();
  static constexpr Hint hint = reason == Reason::loss_is_not_a_scalar
                                   ? Hint::take_sum_or_mean_of_it_first
                                   : Hint::redistribute_to_Replicate_to_finish_the_reduction;
  using type = std::conditional_t<reason == Reason::none, void, LayoutError<reason, Got<X>, Cure<hint>>>;
};

}  // namespace detail

/// Belongs to one thread. Nodes are released as `backward` passes them.
class Tape {
 public:
  constexpr Tape() = default;
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;
  constexpr ~Tape() { clear(); }

  /// A value whose gradient is wanted.
  template <TensorType X>
  constexpr Var<X> input(X x) {
    return Var<X>(*this, std::move(x), SlotFor<X>::make());
  }
  /// A value whose gradient is not wanted: data, targets, masks.
  template <TensorType X>
  constexpr Var<X, false> constant(X x) {
    return Var<X, false>(*this, std::move(x));
  }

  /// Computes the gradients of `loss`, a scalar that is `Replicate` on every axis, and empties the tape.
  template <class Loss, class Problem = typename detail::LossProblem<Loss>::type>
  constexpr void backward(const Loss& loss) {
    run_backward(loss);
  }
  template <class Loss, IllFormed Why = typename detail::LossProblem<Loss>::type>
  Why backward(const Loss&);  // see Why

  /// For operations: adds a node.
  template <class Node, class... Arguments>
  constexpr void record(Arguments&&... arguments) {
    Node* node = make_pooled<Node>(std::forward<Arguments>(arguments)...);
    node->previous_ = last_;
    last_ = node;
  }

  /// Forgets everything recorded.
  constexpr void clear() {
    while (last_) drop_last();
  }

 private:
  template <class X>
  constexpr void run_backward(const Var<X>& loss) {
    PhaseScope phase(loss.mesh().recorder(), Phase::backward);
    cotangent_of<X> one(loss.mesh(), {});
    if constexpr (!X::MeshOf::dry) *one.writable().data = typename X::Element(1);
    loss.slot()->add(std::move(one));
    while (last_) {
      last_->pull_back();
      drop_last();
    }
  }
  constexpr void drop_last() {
    TapeNode* node = last_;
    last_ = node->previous_;
    node->destroy();
  }

  TapeNode* last_ = nullptr;
};

template <class X>
inline constexpr bool is_var = false;
template <class X, bool Tracked>
inline constexpr bool is_var<Var<X, Tracked>> = true;

}  // namespace shardwise
