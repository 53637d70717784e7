// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Finishes the gradients of a module that are pending sums, many in one collective: in buckets, as PyTorch's
/// DistributedDataParallel does (Li et al., "PyTorch Distributed", 2020). What they travel as is said by
/// `set_communication`.
///
/// ```
/// backward_and_reduce(loss, model, {.last = i + 1 == micro_batches});   // of micro-batch i
/// model.up.weight.finished_gradient();   // the sum: Replicate where the parameter is Reduced
/// ```
/// `reduce_gradients(model)` after `tape.backward(loss)` gives the same, without an overlap; an optimizer's step does
/// it too.

#include <shardwise/base/bodies.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/module/parameters.hpp>
#include <shardwise/train/carry_rows.hpp>

namespace shardwise {

struct ReduceOptions {
  /// Collectives of several gradients carry at most this many bytes; what is larger by itself is reduced alone,
  /// without a copy. 0: each is reduced alone.
  Index bucket_bytes = Index{8} << 20;
  /// In how many buckets the communication may go on beside a backward pass; 0: the pass waits for each. On one host it
  /// always does.
  int in_background = 8;
  /// No other backward pass will add to these gradients. If not, only those are reduced that rest sharded. What needs
  /// finished gradients (optimizers, `gradient_norm`, `clip_gradients`) refuses that.
  bool last = true;

  /// The options. Throws `std::invalid_argument` for numbers below 0.
  constexpr const ReduceOptions& checked() const {
    if (bucket_bytes < 0)
      detail::fail({"ReduceOptions: bucket_bytes is ", bucket_bytes, ", which must be 0 or more"});
    if (in_background < 0)
      detail::fail({"ReduceOptions: in_background is ", in_background, ", which must be 0 or more"});
    return *this;
  }
};

/// Takes gradients of parameters from where `backward` leaves them to where they rest, and in the last backward pass
/// of a step on to the finished ones. Beside a pass it learns from units what is complete.
class GradientReducer final : public BackwardTask {
 public:
  /// Throws `std::invalid_argument` for options out of range.
  constexpr explicit GradientReducer(const ReduceOptions& options = {.last = false})
      : buckets_(options.checked().bucket_bytes, options.in_background),
        units_(std::numeric_limits<Index>::max(), std::min(options.in_background, 1)),
        last_(options.last) {}

  /// Before the last pass of a step: of these parameters, those whose gradients travel alone go as soon as they are
  /// complete, without waiting for the unit that they belong to.
  constexpr void watch(const detail::ParameterList& cells) {
    for (detail::ParameterCell* cell : cells) {
      if (last_ && cell->layouts.waits && buckets_.goes_alone(cell->stored, travels(*cell)))
        watched_.emplace_back(*this, *cell);
    }
  }

  /// The gradient of a parameter is complete, as far as this pass goes.
  constexpr void reduce(detail::ParameterCell& cell) {
    std::is_constant_evaluated() ? reduce_here(cell) : reduce_once(cell);
  }

  /// Gradients of fully sharded parameters have been handed over that are to be reduced together.
  constexpr void end_unit() { units_.start(); }
  /// At the end of the pass: returns when all are where they go.
  constexpr void finish() override { std::is_constant_evaluated() ? finish_here() : finish_once(); }

 private:
  constexpr void reduce_here(detail::ParameterCell& cell) {
    if (cell.layouts.waits) {
      if (last_ && cell.pending->filled()) carry_pending({&cell, true, Phase::optimizer});
    } else if (cell.pending->filled()) {
      carry_pending({&cell, false, Phase::backward});
    } else if (last_) {
      finish_rested(cell);
    }
  }
  void reduce_once(detail::ParameterCell& cell);
  constexpr void finish_here() {
    units_.finish();
    buckets_.finish();
  }
  void finish_once();

  /// Where a gradient is going.
  struct Goal {
    detail::ParameterCell* cell;
    bool finishes;  ///< else it goes where it rests
    Phase phase;
  };
  class Watched final : public GradientListener {
   public:
    constexpr Watched(GradientReducer& reducer, detail::ParameterCell& cell)
        : reducer_(reducer), cell_(cell) {
      cell_.pending->set_listener(this);
    }
    constexpr ~Watched() { cell_.pending->set_listener(nullptr); }
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;
    constexpr void complete() override { reducer_.reduce(cell_); }

   private:
    GradientReducer& reducer_;
    detail::ParameterCell& cell_;
  };

  static constexpr const Layout& layout_of(const Goal& goal) {
    return goal.finishes ? goal.cell->layouts.finished : goal.cell->layouts.resting;
  }
  /// Carries what is pending to its goal: as rows of tokens, if it is that.
  constexpr void carry_pending(const Goal& goal) {
    detail::ParameterCell& cell = *goal.cell;
    const Layout& to = layout_of(goal);
    const AxisSet axes = detail::changed_axes(cell.layouts.pending, to, cell.stored.mesh.sizes());
    if (!cell.pending->has_rows() || axes == 0 || !cell.pending->rows_gather_along(axes)) {
      return carry(cell.take_pending(), goal);
    }
    detail::CarriedRows::carry(
        Shared<detail::CarriedRows>::make(*cell.pending, cell.stored.with(to, {}), when_there(goal)),
        buckets_of(goal), axes, travels(cell), goal.phase);
  }
  constexpr detail::Buckets& buckets_of(const Goal& goal) {
    return !goal.finishes && goal.cell->layouts.gathered ? units_ : buckets_;
  }
  /// Carries a gradient to its goal: first along the axes that cut it, by a reduce-scatter, then along the others, by
  /// an all-reduce.
  constexpr void carry(detail::AnyTensor&& gradient, const Goal& goal) {
    detail::ParameterCell& cell = *goal.cell;
    const Layout& to = layout_of(goal);
    if (gradient.layout == to) {
      (goal.finishes ? cell.finished : *cell.resting)
          .add(std::move(gradient.buffer), *cell.functions.sum, gradient.mesh.recorder());
      if (!goal.finishes && last_) finish_rested(cell);
      return;
    }
    const Layout cut = cut_like(gradient.layout, to);
    const Layout& next = gradient.layout == cut ? to : cut;
    buckets_of(goal).carry(std::move(gradient), next, travels(cell), MemoryUse::gradient, goal.phase,
                           when_there(goal));
  }
  /// Goes on from where it has been carried.
  constexpr Shared<detail::Arrival> when_there(const Goal& goal) {
    return detail::when_arrived(
        [this, goal](detail::AnyTensor&& gradient) { carry(std::move(gradient), goal); });
  }
  static constexpr DataType travels(const detail::ParameterCell& cell) {
    return cell.communication.backward_of(cell.stored.type);
  }
  constexpr void finish_rested(detail::ParameterCell& cell) {
    if (!cell.resting->filled()) return;
    carry(cell.stored.with(cell.layouts.resting, cell.resting->take()), {&cell, true, Phase::optimizer});
  }

  detail::Buckets buckets_;
  detail::Buckets units_;  ///< of fully sharded parameters, each gathered and reduced by itself
  bool last_;
  detail::PooledList<Watched> watched_;
};

namespace detail {

/// Throws `std::invalid_argument` for options out of range, or that leave gradients unfinished.
constexpr const ReduceOptions& finishing(const ReduceOptions& options) {
  if (!options.last) {
    throw std::invalid_argument("ReduceOptions: last is false, but what comes here needs finished gradients");
  }
  return options.checked();
}

constexpr void reduce_here(const ParameterList& cells, const ReduceOptions& options) {
  GradientReducer reducer(options);
  for (ParameterCell* cell : cells) reducer.reduce(*cell);
  reducer.finish();
}
void reduce_once(const ParameterList& cells, const ReduceOptions& options);
constexpr void reduce_gradients_of(const ParameterList& cells, const ReduceOptions& options) {
  std::is_constant_evaluated() ? reduce_here(cells, options) : reduce_once(cells, options);
}

/// A task beside a backward pass, for no longer than a scope, also if the pass throws.
class TaskScope {
 public:
  constexpr TaskScope(Tape& tape, BackwardTask& task) : tape_(tape) { tape.set_task(&task); }
  constexpr ~TaskScope() { tape_.set_task(nullptr); }
  TaskScope(const TaskScope&) = delete;
  TaskScope& operator=(const TaskScope&) = delete;

 private:
  Tape& tape_;
};

/// A backward pass, whatever its loss is.
class BackwardPass {
 public:
  constexpr virtual void run() const = 0;
};
template <class Loss>
class BackwardFrom final : public BackwardPass {
 public:
  constexpr explicit BackwardFrom(const Loss& loss) : loss_(loss) {}
  constexpr void run() const override { loss_.tape().backward(loss_); }

 private:
  const Loss& loss_;
};

/// Why the gradients of such a module cannot come from a pass that begins at such a loss, or `void`.
template <class Loss, class Module>
using pass_problem = typename FirstError<typename LossProblem<Loss>::type, visit_problem<Module>>::type;

constexpr void backward_and_reduce_here(Tape& tape, const BackwardPass& pass, const ParameterList& cells,
                                        const ReduceOptions& options) {
  GradientReducer reducer(options);
  reducer.watch(cells);
  const TaskScope scope(tape, reducer);
  pass.run();
}
void backward_and_reduce_once(Tape& tape, const BackwardPass& pass, const ParameterList& cells,
                              const ReduceOptions& options);

}  // namespace detail

/// Moves the gradient of each parameter of `module` from where `backward` left it to `finished_gradient()`, where it
/// is added to what is there. Those that are pending on axes of more than one rank are summed: those that travel as the
/// same type, with the same mesh and axes together, in the order of `visit`, by one collective a bucket: a reduce-scatter where
/// the finished gradient is sharded, else an all-reduce. Collective over these axes. The others only change their
/// type. All ranks must have gradients for the same parameters.
/// Throws `std::invalid_argument` if an option is negative.
template <class Module, class Problem = detail::visit_problem<Module>>
constexpr void reduce_gradients(Module& module, const ReduceOptions& options = {}) {
  detail::reduce_gradients_of(detail::parameters_of(module), options);
}
template <class Module, IllFormed Why = detail::visit_problem<Module>>
Why reduce_gradients(Module&, const ReduceOptions& = {});  // see Why

/// `loss.tape().backward(loss)` and `reduce_gradients`; but the reductions begin while the pass goes on, bucket by
/// bucket, as soon as the gradients of the `Unit`s are complete.
template <class Loss, class Module, class Problem = detail::pass_problem<Loss, Module>>
constexpr void backward_and_reduce(const Loss& loss, Module& module, const ReduceOptions& options = {}) {
  const detail::BackwardFrom pass(loss);
  const detail::ParameterList cells = detail::parameters_of(module);
  std::is_constant_evaluated() ? detail::backward_and_reduce_here(loss.tape(), pass, cells, options)
                               : detail::backward_and_reduce_once(loss.tape(), pass, cells, options);
  reduce_gradients(module, options);
}
template <class Loss, class Module, IllFormed Why = detail::pass_problem<Loss, Module>>
Why backward_and_reduce(const Loss&, Module&, const ReduceOptions& = {});  // see Why

/// Drops all gradients of `module`, wherever they are on their way to the optimizer. A step does it by itself.
template <class Module>
constexpr void clear_gradients(Module& module) {
  for (detail::ParameterCell* cell : detail::parameters_of(module)) {
    cell->pending->clear();
    cell->resting->clear();
    cell->finished.clear();
  }
}

}  // namespace shardwise

#ifdef SHARDWISE_BODIES
namespace shardwise {

SHARDWISE_INLINE void GradientReducer::reduce_once(detail::ParameterCell& cell) { reduce_here(cell); }
SHARDWISE_INLINE void GradientReducer::finish_once() { finish_here(); }

namespace detail {

SHARDWISE_INLINE void reduce_once(const ParameterList& cells, const ReduceOptions& options) {
  reduce_here(cells, options);
}
SHARDWISE_INLINE void backward_and_reduce_once(Tape& tape, const BackwardPass& pass,
                                               const ParameterList& cells, const ReduceOptions& options) {
  backward_and_reduce_here(tape, pass, cells, options);
}

}  // namespace detail

}  // namespace shardwise
#endif
