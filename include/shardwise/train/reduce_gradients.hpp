// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reduces pending gradients of a module, many in one collective: in buckets, like PyTorch's DistributedDataParallel
/// (Li et al., "PyTorch Distributed", 2020). `set_communication` sets the element types of messages.
///
/// ```
/// backward_and_reduce(loss, model, {.last = i + 1 == micro_batches});   // of micro-batch i
/// model.up.weight.finished_gradient();   // the sum: Replicate where the parameter is Reduced
/// ```
/// `reduce_gradients(model)` after `tape.backward(loss)` gives the same result without overlap; an optimizer's step
/// calls it too.

#include <shardwise/base/bodies.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/module/parameters.hpp>
#include <shardwise/train/carry_rows.hpp>

namespace shardwise {

struct ReduceOptions {
  /// A collective of several gradients has at most this many bytes; a larger gradient is reduced alone, without a
  /// copy. 0: each is reduced alone.
  Index bucket_bytes = Index{8} << 20;
  /// The number of buckets that may be in flight during a backward pass; 0: the pass waits for each. On one host it
  /// always waits.
  int in_background = 8;
  /// No other backward pass will add to these gradients. If false, only gradients that accumulate sharded are reduced.
  /// Functions that need finished gradients (optimizers, `gradient_norm`, `clip_gradients`) throw if it is false.
  bool last = true;

  /// Returns the options. Throws `std::invalid_argument` for negative numbers.
  constexpr const ReduceOptions& checked() const {
    if (bucket_bytes < 0)
      detail::fail({"ReduceOptions: bucket_bytes is ", bucket_bytes, ", which must be 0 or more"});
    if (in_background < 0)
      detail::fail({"ReduceOptions: in_background is ", in_background, ", which must be 0 or more"});
    return *this;
  }
};

/// Moves gradients of parameters from where `backward` leaves them to where they accumulate, and in the last backward
/// pass of a step to the finished ones. During a pass, units report which gradients are complete.
class GradientReducer final : public BackwardTask {
 public:
  /// Throws `std::invalid_argument` for options out of range.
  constexpr explicit GradientReducer(const ReduceOptions& options = {.last = false})
      : buckets_(options.checked().bucket_bytes, options.in_background),
        units_(std::numeric_limits<Index>::max(), std::min(options.in_background, 1)),
        last_(options.last) {}

  /// Before the last pass of a step: gradients of these parameters that are reduced alone start as soon as they are
  /// complete, without waiting for their unit.
  constexpr void watch(const detail::ParameterList& cells) {
    int number = 0;
    for (detail::ParameterState* cell : cells) {
      cell->number = number++;
      if (last_ && cell->layouts.accumulates_pending && buckets_.goes_alone(cell->stored, travels(*cell)))
        watched_.emplace_back(*this, *cell);
    }
  }

  /// The gradient of a parameter is complete for this pass.
  constexpr void reduce(detail::ParameterState& cell) { reduce_complete(cell); }

  /// All gradients of a unit's fully sharded parameters have been passed to `reduce`: reduce them together.
  constexpr void end_unit() { units_.start(); }
  /// At the end of the pass: returns when all are at their destination.
  constexpr void finish() override { finish_all(); }

 private:
  constexpr void reduce_here(detail::ParameterState& cell) {
    if (cell.layouts.accumulates_pending) {
      if (last_ && cell.pending->filled()) carry_pending({&cell, true, Phase::optimizer});
    } else if (cell.pending->filled()) {
      carry_pending({&cell, false, Phase::backward});
    } else if (last_) {
      finish_accumulated(cell);
    }
  }
  constexpr void finish_here() {
    units_.finish();
    buckets_.finish();
  }
  SHARDWISE_ONCE(void, reduce_complete, (detail::ParameterState & cell), (cell), reduce_here(cell))
  SHARDWISE_ONCE(void, finish_all, (), (), finish_here())

  struct Goal {
    detail::ParameterState* cell;
    bool finishes;  ///< else it is accumulated
    Phase phase;
  };
  class Watched final : public GradientListener {
   public:
    constexpr Watched(GradientReducer& reducer, detail::ParameterState& cell)
        : reducer_(reducer), cell_(cell) {
      cell_.pending->set_listener(this);
    }
    constexpr ~Watched() { cell_.pending->set_listener(nullptr); }
    Watched& operator=(Watched&&) = delete;
    constexpr void complete() override { reducer_.reduce(cell_); }

   private:
    GradientReducer& reducer_;
    detail::ParameterState& cell_;
  };

  static constexpr const Layout& layout_of(const Goal& goal) {
    return goal.finishes ? goal.cell->layouts.finished : goal.cell->layouts.accumulated;
  }
  /// Moves a pending gradient to its destination: as rows of tokens, if it consists of those.
  constexpr void carry_pending(const Goal& goal) {
    detail::ParameterState& cell = *goal.cell;
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
  /// Moves a gradient to its destination: first a reduce-scatter along the axes that shard it, then an all-reduce
  /// along the others.
  constexpr void carry(detail::AnyTensor&& gradient, const Goal& goal) {
    detail::ParameterState& cell = *goal.cell;
    const Layout& to = layout_of(goal);
    if (gradient.layout == to) {
      (goal.finishes ? cell.finished : *cell.accumulated)
          .add(std::move(gradient.buffer), *cell.functions.sum, gradient.mesh.recorder());
      if (!goal.finishes && last_) finish_accumulated(cell);
      return;
    }
    const Layout cut = cut_like(gradient.layout, to);
    const Layout& next = gradient.layout == cut ? to : cut;
    buckets_of(goal).carry(std::move(gradient), next, travels(cell), MemoryUse::gradient, goal.phase,
                           when_there(goal));
  }
  /// Continues with the next reduction.
  constexpr Shared<detail::CompletionHandler> when_there(const Goal& goal) {
    return detail::on_completion(
        [this, goal](detail::AnyTensor&& gradient) { carry(std::move(gradient), goal); });
  }
  static constexpr DataType travels(const detail::ParameterState& cell) {
    return cell.communication.backward_of(cell.stored.type);
  }
  constexpr void finish_accumulated(detail::ParameterState& cell) {
    if (!cell.accumulated->filled()) return;
    carry(cell.take_accumulated(), {&cell, true, Phase::optimizer});
  }

  detail::Buckets buckets_;
  detail::Buckets units_;  ///< of fully sharded parameters, one unit at a time
  bool last_;
  detail::PooledList<Watched> watched_;
};

namespace detail {

/// Throws `std::invalid_argument` for options out of range, or that leave gradients unfinished.
constexpr const ReduceOptions& finishing(const ReduceOptions& options) {
  if (!options.last) {
    throw std::invalid_argument("ReduceOptions: last is false, but this function needs finished gradients");
  }
  return options.checked();
}

constexpr void reduce_here(const ParameterList& cells, const ReduceOptions& options) {
  GradientReducer reducer(options);
  int number = 0;
  for (ParameterState* cell : cells) cell->number = number++;
  for (ParameterState* cell : cells) reducer.reduce(*cell);
  reducer.finish();
}
SHARDWISE_ONCE(void, reduce_gradients_of, (const ParameterList& cells, const ReduceOptions& options),
               (cells, options), reduce_here(cells, options))

/// Attaches a task to a backward pass for the duration of a scope, even if the pass throws.
class TaskScope {
 public:
  constexpr TaskScope(Tape& tape, BackwardTask& task) : tape_(tape) { tape.set_task(&task); }
  constexpr ~TaskScope() { tape_.set_task(nullptr); }
  TaskScope& operator=(TaskScope&&) = delete;

 private:
  Tape& tape_;
};

/// A backward pass, independent of the type of its loss.
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

/// Why a pass from such a loss cannot produce the gradients of such a module, or `void`.
template <class Loss, class Module>
using pass_problem = typename FirstError<typename LossProblem<Loss>::type, visit_problem<Module>>::type;

constexpr void backward_and_reduce_here(Tape& tape, const BackwardPass& pass, const ParameterList& cells,
                                        const ReduceOptions& options) {
  GradientReducer reducer(options);
  reducer.watch(cells);
  const TaskScope scope(tape, reducer);
  pass.run();
}
SHARDWISE_ONCE(void, run_and_reduce,
               (Tape & tape, const BackwardPass& pass, const ParameterList& cells,
                const ReduceOptions& options),
               (tape, pass, cells, options), backward_and_reduce_here(tape, pass, cells, options))

}  // namespace detail

/// Adds the gradient of each parameter of `module` to its `finished_gradient()`. Gradients that are pending on axes
/// of more than one rank are summed: those with the same mesh, axes and element type of messages together, in the
/// order of `visit`, with one collective per bucket: a reduce-scatter if the finished gradient is sharded, else an
/// all-reduce. Collective over these axes. The others only change their type. All ranks must have gradients for the
/// same parameters. Throws `std::invalid_argument` if an option is negative.
template <class Module, class Problem = detail::visit_problem<Module>>
constexpr void reduce_gradients(Module& module, const ReduceOptions& options = {}) {
  detail::reduce_gradients_of(detail::parameters_of(module), options);
}
template <class Module, IllFormed Why = detail::visit_problem<Module>>
Why reduce_gradients(Module&, const ReduceOptions& = {});  // see Why

/// `loss.tape().backward(loss)` and `reduce_gradients`, but reductions start during the pass, bucket by bucket, as
/// soon as the gradients of each `Unit` are complete.
template <class Loss, class Module, class Problem = detail::pass_problem<Loss, Module>>
constexpr void backward_and_reduce(const Loss& loss, Module& module, const ReduceOptions& options = {}) {
  detail::run_and_reduce(loss.tape(), detail::BackwardFrom(loss), detail::parameters_of(module), options);
  reduce_gradients(module, options);
}
template <class Loss, class Module, IllFormed Why = detail::pass_problem<Loss, Module>>
Why backward_and_reduce(const Loss&, Module&, const ReduceOptions& = {});  // see Why

/// Drops all gradients of `module`, at whatever stage of their reduction. A step does this itself.
template <class Module>
constexpr void clear_gradients(Module& module) {
  for (detail::ParameterState* cell : detail::parameters_of(module)) {
    cell->pending->clear();
    cell->accumulated->clear();
    cell->finished.clear();
  }
}

}  // namespace shardwise
