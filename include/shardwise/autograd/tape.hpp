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
/// `tape.backward(y, dy)` begins at any `y`, with its gradient.
/// Without a tape, operations take and give plain tensors, and there is no trace of autograd in the run.

#include <shardwise/autograd/differentiable.hpp>
#include <shardwise/base/bodies.hpp>

namespace shardwise {

/// Belongs to one thread. Nodes are released as `backward` passes them.
class Tape {
 public:
  constexpr Tape() = default;
  Tape& operator=(Tape&&) = delete;
  constexpr ~Tape() { clear(); }

  /// A value whose gradient is wanted.
  template <TensorType X>
  constexpr Var<X> input(X x) {
    if (x) recorder_ = x.mesh().recorder();
    return Var<X>(*this, std::move(x), Shared<GradientSlot>::make());
  }
  /// A value whose gradient is not wanted: data, targets, masks.
  template <TensorType X>
  constexpr Var<X, false> constant(X x) {
    if (x) recorder_ = x.mesh().recorder();
    return Var<X, false>(*this, std::move(x));
  }

  /// Computes the gradients of `loss`, a scalar that is `Replicate` on every axis, and empties the tape, also if it
  /// throws.
  template <class Loss, class Problem = typename detail::LossProblem<Loss>::type>
  constexpr void backward(const Loss& loss) {
    run_backward(loss, detail::gradient_of_itself<typename Loss::TensorOf>(loss.mesh()), BackwardPart::all);
  }

  /// The vector-Jacobian product: the same from any tracked `y`, whose gradient `dy` has its extents and the type
  /// `cotangent_of` the type of `y`. If both are passed as rvalues, their memory is reused.
  /// Throws `std::invalid_argument` if `dy` has other extents, is empty, or lives on another mesh.
  template <class Y, TensorType Dy, class Problem = typename detail::GradientProblem<Y, Dy>::type>
  constexpr void backward(Y y, Dy dy) {
    check_gradient(y.value(), dy);
    run_backward(std::move(y), std::move(dy), BackwardPart::all);
  }

  /// The same in two parts: first without the gradients of parameters, then these. (A loss that computes its logits
  /// again computes the gradients of its head in the first part.) Gradients of parameters are complete after the second
  /// part, and so is the task beside the pass.
  template <class Loss, class Problem = typename detail::LossProblem<Loss>::type>
  constexpr void backward_inputs(const Loss& loss) {
    run_backward(loss, detail::gradient_of_itself<typename Loss::TensorOf>(loss.mesh()),
                 BackwardPart::inputs);
  }
  template <class Y, TensorType Dy, class Problem = typename detail::GradientProblem<Y, Dy>::type>
  constexpr void backward_inputs(Y y, Dy dy) {
    check_gradient(y.value(), dy);
    run_backward(std::move(y), std::move(dy), BackwardPart::inputs);
  }
  constexpr void backward_parameters() {
    PhaseScope phase(recorder_, Phase::backward);
    pull_back(BackwardPart::parameters);
  }

  /// Backward from a bare slot: `dy` is the gradient of its tensor.
  template <TensorType Dy>
  constexpr void backward_from(GradientSlot& slot, Dy dy, BackwardPart part = BackwardPart::all) {
    const auto mesh = dy.mesh();  // nodes refer to it
    recorder_ = mesh.recorder();
    PhaseScope phase(recorder_, Phase::backward);
    slot.add(std::move(dy));
    pull_back(part);
  }

  /// Every backward pass through this tape also adds the gradients of `weight` · loss, wherever the pass begins: for
  /// losses that arise within a model, such as `balance_loss`. `loss` is a scalar that is `Replicate` on every axis.
  template <class Loss, class Problem = typename detail::LossProblem<Loss>::type>
  constexpr void add_loss(const Loss& loss, double weight) {
    if (&loss.tape() != this) throw std::invalid_argument("Tape::add_loss: the loss is on another tape");
    auto start = [mesh = loss.mesh(), slot = loss.slot(), weight](BackwardPart) {
      slot->add(detail::gradient_of_itself<typename Loss::TensorOf>(mesh, weight));
      return false;
    };
    record<PullbackNode<decltype(start)>>(std::move(start));
  }

  /// Operations call it: adds a node, which lives until the backward pass has run it.
  template <class Node, class... Arguments>
  constexpr Node& record(Arguments&&... arguments) {
    Node* node = make_pooled<Node>(static_cast<Arguments&&>(arguments)...);
    TapeNode& base = *node;
    base.previous_ = last_;
    if (recorder_) base.module_ = recorder_->module();
    last_ = node;
    return *node;
  }

  /// Nodes call it: returns the task beside this backward pass, created if there is none.
  template <class Task>
  constexpr Task& task() {
    if (!task_) own_task_ = task_ = make_pooled<Task>();
    return static_cast<Task&>(*task_);
  }
  constexpr bool has_task() const { return task_ != nullptr; }
  /// Sets the task beside the next backward pass.
  constexpr void set_task(BackwardTask* task) { task_ = task; }

  /// `recompute` calls it: this tape records a call again, and its part of the backward pass comes next.
  constexpr void set_repeats(Recorder* recorder) {
    repeats_ = true;
    recorder_ = recorder;
  }
  constexpr bool repeats() const { return repeats_; }

  /// A node calls it when it is recorded, if its gradient will travel between hosts. Until then, gradients of
  /// parameters are postponed.
  constexpr void expect_message() { ++messages_; }
  /// The node calls it while its gradient travels: computes the older half of what is postponed; with the last message,
  /// all. The number does not depend on time, because ranks that share parameters must complete them in one order.
  constexpr void compute_while_waiting() {
    compute_postponed(--messages_ > 0 ? (postponed_ + 1) / 2 : postponed_);
  }
  /// Completes the gradients of parameters.
  constexpr void compute_postponed() { compute_postponed(postponed_); }

  /// Counts the recorded calls that the backward pass repeats.
  constexpr void count_repeated() { ++repeated_; }
  constexpr int repeated() const { return repeated_; }

  /// Forgets everything recorded.
  constexpr void clear() {
    while (last_) drop_last();
    last_ = std::exchange(left_, nullptr);
    while (last_) drop_last();
    messages_ = postponed_ = 0;
    end_task();
  }

  // Refused: a value of another kind than a tensor or a loss, and a gradient that does not fit.
  template <class X, IllFormed Why = WrittenOtherwise<Hint::pass_a_tensor_and_use_parameters_as_they_are>>
    requires(!TensorType<X>)
  static Why constant(const X&);  // see Why
  template <class X, IllFormed Why = WrittenOtherwise<Hint::pass_a_tensor_and_use_parameters_as_they_are>>
    requires(!TensorType<X>)
  static Why input(const X&);  // see Why
  template <class Loss, IllFormed Why = typename detail::LossProblem<Loss>::type>
  static Why backward(const Loss&);  // see Why
  template <class Y, TensorType Dy, IllFormed Why = typename detail::GradientProblem<Y, Dy>::type>
  static Why backward(Y, Dy);  // see Why
  template <class Loss, IllFormed Why = typename detail::LossProblem<Loss>::type>
  static Why backward_inputs(const Loss&);  // see Why
  template <class Y, TensorType Dy, IllFormed Why = typename detail::GradientProblem<Y, Dy>::type>
  static Why backward_inputs(Y, Dy);  // see Why
  template <class Loss, IllFormed Why = typename detail::LossProblem<Loss>::type>
  static Why add_loss(const Loss&, double);  // see Why

 private:
  template <TensorType X>
  static constexpr void check_gradient(const X& y, const cotangent_of<X>& dy) {
    if (!dy) throw std::invalid_argument("Tape::backward: the gradient is an empty tensor");
    if (!(dy.mesh() == y.mesh())) {
      throw std::invalid_argument("Tape::backward: the gradient lives on another mesh than the result");
    }
    for (int dim = 0; dim < y.shape().size(); ++dim) {
      if (dy.shape()[dim] != y.shape()[dim]) {
        detail::fail({"Tape::backward: dimension ", dim, " of the gradient is ", dy.shape()[dim],
                      ", of the result ", y.shape()[dim]});
      }
    }
  }
  template <class X>
  constexpr void run_backward(Var<X> y, cotangent_of<X> dy, BackwardPart part) {
    if (&y.tape() != this) throw std::invalid_argument("Tape::backward: the result is on another tape");
    const Shared<GradientSlot> slot = y.slot();
    std::move(y).release();  // nodes keep the parts that they need
    backward_from(*slot, std::move(dy), part);
  }
  SHARDWISE_ONCE(void, pull_back, (BackwardPart part), (part), pull_back_here(part))
  constexpr void pull_back_here(BackwardPart part) {
    struct Pass {
      Tape* failed;
      constexpr ~Pass() {
        if (failed) failed->clear();
      }
    } pass{this};
    TapeNode** end = &left_;
    while (last_) {
      const ModuleScope scope(recorder_, last_->module_);
      const bool postpones = messages_ > 0 && part == BackwardPart::all && last_->may_postpone();
      if (last_->pull_back(postpones ? BackwardPart::inputs : part)) {
        if (!left_) end = &left_;
        *end = std::exchange(last_, last_->previous_);
        end = &(*end)->previous_;
        *end = nullptr;
        if (postpones) ++postponed_;
      } else {
        drop_last();
      }
    }
    compute_postponed();
    last_ = std::exchange(left_, nullptr);
    if (part != BackwardPart::inputs) {
      if (task_) task_->finish();
      end_task();
    }
    pass.failed = nullptr;
  }
  constexpr void compute_postponed(int most) {
    for (; most > 0; --most, --postponed_) {
      const ModuleScope scope(recorder_, left_->module_);
      left_->pull_back(BackwardPart::parameters);
      destroy_pooled(std::exchange(left_, left_->previous_));
    }
  }
  constexpr void end_task() {
    task_ = nullptr;
    if (own_task_) destroy_pooled(std::exchange(own_task_, nullptr));
  }
  constexpr void drop_last() {
    TapeNode* node = last_;
    last_ = node->previous_;
    destroy_pooled(node);
  }

  TapeNode* last_ = nullptr;
  TapeNode* left_ = nullptr;      ///< nodes for the second part of the pass, in its order
  Recorder* recorder_ = nullptr;  ///< from the mesh of the latest input, or of the differentiated value
  BackwardTask* task_ = nullptr;
  BackwardTask* own_task_ = nullptr;
  bool repeats_ = false;
  int repeated_ = 0;
  int messages_ = 0;   ///< nodes whose gradients will travel between hosts
  int postponed_ = 0;  ///< nodes in `left_` if the pass has one part
};

}  // namespace shardwise
