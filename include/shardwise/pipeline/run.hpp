// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Executes the actions of a rank in one step of a pipeline.

#include <shardwise/module/stages.hpp>
#include <shardwise/schedule/pipeline_schedule.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/tensor/from_mesh_to_mesh.hpp>
#include <shardwise/train/reduce_gradients.hpp>

namespace shardwise::detail {

/// The input of a stage, either from another rank or local.
template <TensorType X>
class StageInput {
 public:
  constexpr void expect(InFlight<X> coming) { coming_.emplace(std::move(coming)); }
  constexpr void put(X here) { here_ = std::move(here); }
  constexpr X take() {
    if (coming_) {
      here_ = coming_->wait();
      coming_.reset();
    }
    return std::exchange(here_, X());
  }

 private:
  std::optional<InFlight<X>> coming_;
  X here_;
};

/// Whether `Make` takes the mesh of a stage, and makes a module on it: none that is a template of the job's mesh.
template <class Part, class Job>
inline constexpr bool is_on_job = false;
template <template <class...> class Part, class Job, class... Rest>
inline constexpr bool is_on_job<Part<Job, Rest...>, Job> = true;
template <class Make, class Job, class StageMesh>
concept makes_stages = std::is_invocable_v<Make&, int, const StageMesh&> &&
    !is_on_job<std::invoke_result_t<Make&, int, const StageMesh&>, Job>;

template <class Part, class Begin>
using begun = std::invoke_result_t<Begin&, Tape&, Part&, int>;

/// Wraps a `middle(part, x)` to also take the number of the micro-batch; a `middle` that takes it is used directly.
template <class Middle>
struct AnyMicroBatch {
  Middle middle;
  template <class Part, class X>
    requires std::is_invocable_v<Middle&, Part&, const X&>
  constexpr auto operator()(Part& part, const X& x, int) { return middle(part, x); }
};
template <class Part, class X, class Middle>
using of_micro_batch =
    std::conditional_t<std::is_invocable_v<Middle&, Part&, const X&, int>, Middle, AnyMicroBatch<Middle>>;

/// Why stages that begin with an `X` do not fit together, or `void`: `middle` must take and return an `X`, `end`
/// take one.
template <class Part, class X, class Middle, class End, class... MicroBatch>
constexpr auto check_stages() {
  if constexpr (!std::is_invocable_v<Middle&, Part&, const X&, MicroBatch...>) {
    return Refused<Reason::stage_does_not_accept_previous_output, Got<X>>{};
  } else if constexpr (!std::is_same_v<std::invoke_result_t<Middle&, Part&, const X&, MicroBatch...>, X>) {
    return Refused<Reason::stage_output_does_not_match_next_input, Expected<X>,
                   Got<std::invoke_result_t<Middle&, Part&, const X&, MicroBatch...>>>{};
  } else if constexpr (!std::is_invocable_v<End&, Part&, const X&, MicroBatch...>) {
    return Refused<Reason::stage_does_not_accept_previous_output, Got<X>>{};
  } else {
    return TypeIs<void>{};
  }
}
template <class Part, class X, class Middle, class End, class... MicroBatch>
using stages_problem = typename decltype(check_stages<Part, X, Middle, End, MicroBatch...>())::type;

/// The same for a step with gradients, from `First` to the loss. (If everything before it is frozen, `First` has no
/// gradient.)
template <class Part, class First, class Middle, class End>
constexpr auto check_step() {
  using X = Var<tensor_of<First>>;
  if constexpr (TensorType<First>) {
    return TypeIs<LayoutError<Reason::stage_output_does_not_match_next_input, Expected<X>, Got<First>,
                              Cure<Hint::put_its_inputs_on_the_tape_with_input_or_constant>>>{};
  } else if constexpr (!std::is_same_v<First, X> && !std::is_same_v<First, Var<tensor_of<First>, false>>) {
    return Refused<Reason::stage_output_does_not_match_next_input, Expected<X>, Got<First>>{};
  } else if constexpr (IllFormed<stages_problem<Part, X, of_micro_batch<Part, X, Middle>, End, int>>) {
    return TypeIs<stages_problem<Part, X, of_micro_batch<Part, X, Middle>, End, int>>{};
  } else {
    return LossProblem<std::invoke_result_t<End&, Part&, const X&, int>>{};
  }
}
template <class Part, class First, class Middle, class End>
using step_problem = typename decltype(check_step<Part, First, Middle, End>())::type;

template <class StageMesh, class Part, class Neighbour, class Begin, class Middle, class End>
class PipelineRun {
  using X = tensor_of<begun<Part, Begin>>;
  using Loss = decltype(std::declval<End&>()(std::declval<Part&>(), std::declval<const Var<X>&>(), 0));
  using Dx = cotangent_of<X>;

 public:
  constexpr PipelineRun(const StageMesh& mesh, const PipelineSchedule& schedule, int rank,
                        Stages<Part>& stages, const Shape<X::rank>& shape, Neighbour neighbour, Begin begin,
                        Middle middle, End end, const ReduceOptions& options)
      : mesh_(mesh),
        schedule_(schedule),
        rank_(rank),
        stages_(stages),
        shape_(shape),
        neighbour_(neighbour),
        begin_(begin),
        middle_{middle},
        end_(end),
        reducer_(finishing(options)),
        passes_(static_cast<std::size_t>(schedule.stages() * schedule.micro_batches)),
        left_(static_cast<std::size_t>(schedule.stages()), schedule.micro_batches) {}

  /// The sum of the losses on the rank with the last stage; 0 on others.
  constexpr double run() {
    const std::vector<Action>& actions = at(schedule_.actions, rank_);
    for (std::size_t i = 0; i < actions.size(); ++i) {
      expect(actions, i);
      if (nobody_waits_between(actions, i)) {
        const Action& inputs = actions[i++];
        carry_out({Work::backward, inputs.stage, inputs.micro_batch});
      } else {
        carry_out(actions[i]);
      }
    }
    sent_.clear();
    reducer_.finish();
    return loss_;
  }

 private:
  struct Pass {
    StageInput<X> x;
    StageInput<Dx> dy;
    std::optional<Tape> tape;
    Shared<GradientSlot> input, output;  ///< gradient accumulators of the stage
    X y;                                 ///< until it is sent
    Dx dx;
  };

  constexpr Pass& pass(int stage, int micro_batch) {
    return at(passes_, stage * schedule_.micro_batches + micro_batch);
  }
  constexpr bool is_here(int stage) const { return at(schedule_.rank_of_stage, stage) == rank_; }
  /// Whether this action and the next are the two parts of one backward, and no other rank waits for the result of
  /// the first: combined they are faster, and need not keep gradients between them.
  constexpr bool nobody_waits_between(const std::vector<Action>& actions, std::size_t i) const {
    const auto [work, stage, micro_batch, overlaps] = actions[i];
    return work == Work::backward_input && i + 1 < actions.size() &&
           actions[i + 1] == Action{Work::backward_weight, stage, micro_batch} &&
           (stage == 0 || is_here(stage - 1));
  }
  constexpr bool is_last(int stage) const { return stage + 1 == schedule_.stages(); }

  /// Starts the receives up to action `now`, and a few further ones, so that they overlap with computation.
  constexpr void expect(const std::vector<Action>& actions, std::size_t now) {
    for (; expected_ < actions.size() && (expected_ <= now || coming_ < 2); ++expected_) {
      const Action& action = actions[expected_];
      if (action.work == Work::receive_forward) {
        pass(action.stage, action.micro_batch)
            .x.expect(receive<X>(mesh_, shape_, neighbour_(action.stage - 1)));
        ++coming_;
      } else if (action.work == Work::receive_backward) {
        pass(action.stage, action.micro_batch)
            .dy.expect(receive<Dx>(mesh_, shape_, neighbour_(action.stage + 1)));
        ++coming_;
      }
    }
  }
  constexpr void carry_out(const Action& action) {
    Pass& at = pass(action.stage, action.micro_batch);
    switch (action.work) {
      case Work::forward:
        return forward(action, at);
      case Work::backward:
        backward(action, at, BackwardPart::all);
        return complete(action, at);
      case Work::backward_input:
        return backward(action, at, BackwardPart::inputs);
      case Work::backward_weight:
        at.tape->backward_parameters();
        return complete(action, at);
      case Work::receive_forward:
      case Work::receive_backward:
        --coming_;
        return;
      case Work::send_forward:
        return keep(send(std::exchange(at.y, X()), neighbour_(action.stage + 1)));
      case Work::send_backward:
        const PhaseScope phase(mesh_.recorder(), Phase::backward);
        return keep(send(std::exchange(at.dx, Dx()), neighbour_(action.stage - 1)));
    }
  }
  /// Keeps at most two sends in flight: waiting only for older ones is no slower than waiting for each.
  constexpr void keep(SendInFlight sending) {
    sent_.emplace_back(std::move(sending));
    if (sent_.size() > 2) sent_.pop_front();
  }

  constexpr void forward(const Action& action, Pass& at) {
    Part& part = stages_.at(action.stage);
    Tape& tape = at.tape.emplace();
    const auto through = [&](const auto& x) -> Var<X> {
      if (x.shape() != shape_) {
        fail({"a pipeline: begin gives a micro-batch of the shape ", x.shape(), ", but run was given ",
              shape_});
      }
      auto y = middle_(part, x, action.micro_batch);
      if constexpr (decltype(y)::tracked) {
        return y;
      } else {
        return tape.input(std::move(y).release());
      }
    };
    const auto output = [&]() -> Var<X> {  // (g++ 12 miscounts the handles of `?:`)
      if (action.stage > 0) {
        const Var<X> x = tape.input(at.x.take());
        at.input = x.slot();
        return through(x);
      }
      auto first = begin_(tape, part, action.micro_batch);
      if (&first.tape() != &tape)
        throw std::invalid_argument("a pipeline: begin puts its result on another tape");
      if constexpr (decltype(first)::tracked ||
                    std::is_invocable_v<decltype(middle_)&, Part&, const decltype(first)&, int>) {
        return through(first);
      } else {
        return through(tape.input(std::move(first).release()));
      }
    };
    Var<X> y = output();
    if (!is_last(action.stage)) {
      if (y.shape() != shape_) {
        fail({"a pipeline: stage ", action.stage, " gives the shape ", y.shape(), ", but run was given ",
              shape_});
      }
      at.output = y.slot();
      give(action.stage + 1, action.micro_batch, std::move(y).release(), at.y, &Pass::x);
      return;
    }
    Loss loss = end_(part, std::as_const(y), action.micro_batch);
    if (!mesh_.dry()) loss_ += static_cast<double>(item(loss.value()));
    at.output = loss.slot();
  }
  constexpr void backward(const Action& action, Pass& at, BackwardPart part) {
    const Shared<GradientSlot> output = std::exchange(at.output, {});
    if (is_last(action.stage)) {
      at.tape->backward_from(*output, gradient_of_itself<tensor_of<Loss>>(mesh_), part);
    } else {
      at.tape->backward_from(*output, at.dy.take(), part);
    }
    if (action.stage == 0) return;
    Dx dx(mesh_, shape_, at.input->take());
    at.input = {};
    give(action.stage - 1, action.micro_batch, std::move(dx), at.dx, &Pass::dy);
  }
  /// Passes a tensor to a stage of this rank, or keeps it until it is sent.
  template <class Tensor>
  constexpr void give(int stage, int micro_batch, Tensor tensor, Tensor& to_be_sent,
                      StageInput<Tensor> Pass::*place) {
    if (is_here(stage)) {
      (pass(stage, micro_batch).*place).put(std::move(tensor));
    } else {
      to_be_sent = std::move(tensor);
    }
  }
  /// All gradients of a micro-batch are complete; if it was the stage's last, they are reduced while other stages
  /// continue.
  constexpr void complete(const Action& action, Pass& at) {
    at.tape.reset();
    if (--detail::at(left_, action.stage) > 0) return;
    for (ParameterState* cell : parameters_of(stages_.at(action.stage))) reducer_.reduce(*cell);
    reducer_.end_unit();
  }

  const StageMesh& mesh_;
  const PipelineSchedule& schedule_;
  int rank_;
  Stages<Part>& stages_;
  Shape<X::rank> shape_;
  Neighbour neighbour_;
  Begin begin_;
  of_micro_batch<Part, Var<X>, Middle> middle_;
  End end_;
  GradientReducer reducer_;
  std::vector<Pass, PoolAllocator<Pass>> passes_;
  std::vector<int, PoolAllocator<int>> left_;  ///< for each stage: micro-batches with incomplete gradients
  PooledList<SendInFlight> sent_;
  std::size_t expected_ = 0;  ///< actions whose receives have been started
  int coming_ = 0;            ///< receives started but not yet reached
  double loss_ = 0;
};

}  // namespace shardwise::detail
