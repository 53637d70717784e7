// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Pipeline parallelism: the layers of a model are divided among the ranks along an axis, and a schedule determines how
/// micro-batches pass through them (Huang et al., "GPipe", 2019; Narayanan et al., "Efficient large-scale language
/// model training on GPU clusters using Megatron-LM", 2021; Qi et al., "Zero bubble pipeline parallelism", 2023).
///
/// ```
/// Mesh<pp, dp, tp> job(world(), {4, any, 1});
/// Pipeline pipeline(job, one_forward_one_backward(4, micro_batches));
/// auto stages = pipeline.stages([&](int stage, const auto& mesh) {             // on Mesh<dp, tp>: this rank's
///   return Llama<Mesh<dp, tp>>(mesh, config, LlamaPart::of(config, pipeline.schedule().rank_of_stage, stage));
/// });
/// initialize(stages, seed);
/// double loss = pipeline.run(stages, {batch, sequence, config.features},
///     [&](auto& tape, auto& part, int i) { return part.begin(tape.constant(ids[i])); },
///     [&](auto& part, const auto& x) { return part.middle(x); },
///     [&](auto& part, const auto& x, int i) { return part.end(x, targets[i], criterion); });
/// pipeline.clip_gradients(stages, 1);
/// optimizer.step(stages);
/// ```
/// All stages exchange one type of tensor, which `begin` returns, `middle` takes and returns, and `end` takes.

#include <shardwise/guard/same_on_all_ranks.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/module/stages.hpp>
#include <shardwise/pipeline/part_names.hpp>
#include <shardwise/pipeline/run.hpp>
#include <shardwise/schedule/messages.hpp>
#include <shardwise/train/check_finite.hpp>

namespace shardwise {

namespace detail {

template <class Axis, class Before, class... Axes>
struct WithoutAxis;
template <class Axis, class... Before>
struct WithoutAxis<Axis, std::tuple<Before...>> {
  static constexpr auto submesh(const auto& job) { return job.template submesh<Before...>(); }
  static constexpr auto ranks_at(const auto& job, const MeshSizes& through) {
    return job.template submesh_ranks<Before...>(through);
  }
};
template <class Axis, class... Before, class First, class... Rest>
struct WithoutAxis<Axis, std::tuple<Before...>, First, Rest...>
    : std::conditional_t<std::is_same_v<Axis, First>, WithoutAxis<Axis, std::tuple<Before...>, Rest...>,
                         WithoutAxis<Axis, std::tuple<Before..., First>, Rest...>> {};

template <class Job, class Axis>
struct StageAxes;
template <template <class...> class MeshOf, class... Axes, class Axis>
struct StageAxes<MeshOf<Axes...>, Axis> : WithoutAxis<Axis, std::tuple<>, Axes...> {
  static_assert((std::is_same_v<Axis, Axes> || ...), "the mesh has no such axis");
  static_assert(sizeof...(Axes) > 1,
                "a mesh with a pipeline's axis alone: give it a second one, of one rank");
};

}  // namespace detail

/// This rank's position in a pipeline along `Axis`, and its work. A handle; copies share the mesh.
template <class Job, MeshAxis Axis = pp>
class Pipeline {
  using Axes = detail::StageAxes<Job, Axis>;

 public:
  /// The mesh of a stage: the job's without the pipeline's axis.
  using StageMesh = decltype(Axes::submesh(std::declval<const Job&>()));

  /// Collective over the job. Throws `std::invalid_argument`, on every rank, for a schedule that cannot be executed
  /// (see `prove`), has another number of ranks, or differs between ranks.
  constexpr Pipeline(const Job& job, const PipelineSchedule& schedule)
      : job_(job), schedule_(with_messages(agreed(job, schedule))), mesh_(Axes::submesh(job)) {
    if (schedule_.ranks() != job.template size<Axis>()) {
      detail::fail({"Pipeline: the schedule is for ", schedule_.ranks(), " ranks, but axis ", Axis::name,
                    " has ", job.template size<Axis>()});
    }
  }

  constexpr const StageMesh& mesh() const { return mesh_; }
  constexpr const PipelineSchedule& schedule() const { return schedule_; }
  constexpr int stage_count() const { return schedule_.stages(); }
  /// The rank, along the pipeline, of a stage.
  constexpr int rank_of(int stage) const {
    if (stage < 0 || stage >= stage_count()) {
      detail::fail<std::out_of_range>({"Pipeline: there is no stage ", stage, " of ", stage_count()});
    }
    return detail::at(schedule_.rank_of_stage, stage);
  }
  constexpr bool is_here(int stage) const { return rank_of(stage) == job_.template rank<Axis>(); }

  /// Creates the stages of this rank: make(stage, mesh) returns a part of a model.
  template <class Make, class = std::enable_if_t<detail::makes_stages<Make, Job, StageMesh>>>
  constexpr auto stages(Make make) const {
    Stages<std::invoke_result_t<Make&, int, const StageMesh&>> own;
    for (int stage = 0; stage < stage_count(); ++stage) {
      if (is_here(stage)) own.add(stage, make(stage, mesh_));
    }
    return own;
  }
  template <class Make, IllFormed Why = std::conditional_t<
                            std::is_invocable_v<Make&, int, const StageMesh&>,
                            layout_error<Reason::operands_are_on_different_meshes, Expected<StageMesh>>,
                            WrittenOtherwise<Hint::let_it_take_the_stage_and_its_mesh_and_return_the_part>>>
    requires(!detail::makes_stages<Make, Job, StageMesh>)
  auto stages(Make) const -> Why = delete;  // see Why

  /// All forward and backward passes of a step, in the order of the schedule; gradients are summed over the
  /// micro-batches and finished. Returns the sum of their losses, on every rank; 0 on a dry mesh. Collective over the
  /// job. Throws `std::invalid_argument`, on every rank, if two trained parameters have the same name, unless
  /// `copied()` of the first and the last part return them; this is checked before the first step with these stages.
  ///
  /// `shape`: the extents of the tensor between stages, for one micro-batch. `begin(tape, part, i)` computes it for
  /// micro-batch i, on the tape, in the first part; `middle(part, x)` or `middle(part, x, i)` transforms it in each
  /// part; `end(part, x, i)` returns the loss in the last part, scaled so that losses and gradients add up.
  template <class Part, class Begin, class Middle, class End, class First = detail::begun<Part, Begin>,
            class = std::enable_if_t<WellFormed<detail::step_problem<Part, First, Middle, End>>>>
  constexpr double run(Stages<Part>& stages, const Shape<tensor_of<First>::rank>& shape, Begin begin,
                       Middle middle, End end, const ReduceOptions& options = {}) const {
    if (!job_.dry()) check_names(stages);
    const auto neighbour = [&](int stage) { return ranks_of(stage); };
    const Buffer earlier = take_copies(stages);
    detail::PipelineRun pass(mesh_, schedule_, job_.template rank<Axis>(), stages, shape, neighbour, begin,
                             middle, end, options);
    const double loss = pass.run();
    const auto [first, second] = copies(stages);
    add_up_copies(first, second, earlier);
    return over_stages(loss, Phase::forward);
  }
  template <class Part, class Begin, class Middle, class End, class First = detail::begun<Part, Begin>,
            IllFormed Why = detail::step_problem<Part, First, Middle, End>>
  double run(Stages<Part>&, const Shape<tensor_of<First>::rank>&, Begin, Middle, End,
             const ReduceOptions& = {}) const = delete;  // see Why

  /// One forward pass without a tape, for evaluation or generation: `begin(part)`, `middle(part, x)`, and
  /// `end(part, x)`, which returns a number. Returns that number on every rank. Of the schedule it uses only the
  /// assignment of stages to ranks. Collective over the job.
  template <class Part, class Begin, class Middle, class End, class X = std::invoke_result_t<Begin&, Part&>,
            class = std::enable_if_t<WellFormed<detail::stages_problem<Part, X, Middle, End>>>>
  constexpr double forward(Stages<Part>& stages, const Shape<X::rank>& shape, Begin begin, Middle middle,
                           End end) const {
    X x;
    double result = 0;
    for (int stage = 0; stage < stage_count(); ++stage) {
      if (!is_here(stage)) continue;
      Part& part = stages.at(stage);
      if (stage == 0) {
        x = begin(part);
      } else if (!is_here(stage - 1)) {
        x = receive<X>(mesh_, shape, ranks_of(stage - 1)).wait();
      }
      x = middle(part, std::as_const(x));
      if (stage + 1 == stage_count()) {
        result = end(part, std::as_const(x));
      } else if (!is_here(stage + 1)) {
        send(std::exchange(x, X()), ranks_of(stage + 1)).wait();
      }
    }
    return over_stages(result, Phase::forward);
  }
  template <class Part, class Begin, class Middle, class End, class X = std::invoke_result_t<Begin&, Part&>,
            IllFormed Why = detail::stages_problem<Part, X, Middle, End>>
  double forward(Stages<Part>&, const Shape<X::rank>&, Begin, Middle, End) const = delete;  // see Why

  /// The norm of all gradients of the model, as in `gradient_norm`, after which they are clipped. Throws as
  /// `clip_gradients` does.
  template <class Part>
  constexpr double clip_gradients(Stages<Part>& stages, double max_norm) const {
    detail::check_max_norm(max_norm);
    const auto [first, second] = copies(stages);
    detail::ParameterList own = detail::parameters_of(stages);
    if (second) std::erase(own, second);  // a parameter counts once
    double norm = detail::norm_of(own, false);
    if (job_.template size<Axis>() > 1) {
      const double squares = over_stages(norm * norm, Phase::optimizer);
      norm = __builtin_is_constant_evaluated() ? 0 : std::sqrt(squares);
    }
    detail::clip_to(max_norm, norm, detail::parameters_of(stages));
    return norm;
  }

  /// Throws as the function `check_finite`, for the stages of all ranks along the axis.
  template <class Part>
  constexpr void check_finite(Stages<Part>& stages, std::int64_t step, double loss, double norm) const {
    if (detail::is_finite(loss) && detail::is_finite(norm)) return;
    if (job_.template size<Axis>() == 1) return shardwise::check_finite(stages, step, loss, norm);
    const std::string mine = std::string(Axis::name) + " " + std::to_string(job_.template rank<Axis>()) +
                             ": " + find_non_finite(stages, loss, norm) + ". ";
    throw NonFiniteError(step, detail::gather_texts(job_.template communicator<Axis>(), mine));
  }

 private:
  /// Returns the schedule if all ranks have the same one.
  static constexpr const PipelineSchedule& agreed(const Job& job, const PipelineSchedule& schedule) {
    if (!job.dry()) {
      std::vector<NamedText> all{{"stages", std::to_string(schedule.stages())},
                                 {"micro-batches", std::to_string(schedule.micro_batches)}};
      for (const int rank : schedule.rank_of_stage) all.push_back({"stage on", std::to_string(rank)});
      for (const std::vector<Action>& of_rank : schedule.actions) {
        for (const Action& action : of_rank) all.push_back({"action", text_of(action)});
      }
      require_same(job.communicator(), all, "Pipeline: schedules differ");
    }
    return schedule;
  }
  constexpr auto ranks_of(int stage) const {
    return Axes::ranks_at(job_, job_.template at<Axis>(rank_of(stage)));
  }

  /// Rejects names that are inconsistent within the model; once for these stages, on all ranks. Collective along
  /// the axis.
  template <class Part>
  void check_names(Stages<Part>& stages) const {
    if (stages.names_are_checked_ || stage_count() == 1) return;
    const auto [first, second] = copies(stages);
    detail::NamesOfParts names;
    for (int stage = 0; stage < stage_count(); ++stage) {
      if (!is_here(stage)) continue;
      auto* copy = stage == 0 ? first : stage + 1 == stage_count() ? second : nullptr;
      names.add(stage, stages.at(stage), copy);
    }
    names.check(job_.template communicator<Axis>());
    stages.names_are_checked_ = true;
  }

  /// The local copies of the parameter that both the first and the last stage have.
  template <class Part>
  constexpr auto copies(Stages<Part>& stages) const {
    std::pair<detail::ParameterState*, detail::ParameterState*> both;
    if constexpr (requires(Part & part) { part.copied()->gradient(); }) {
      auto in = [&](int stage) -> detail::ParameterState* {  // a whole model has no copy
        if (stage_count() == 1 || !stages.has(stage)) return nullptr;
        auto* copied = stages.at(stage).copied();
        return copied ? &*copied->cell() : nullptr;
      };
      both = {in(0), in(stage_count() - 1)};
      if (both.first == both.second) both = {};  // shared
    }
    return both;
  }
  /// Resets the gradients of the copies, which after earlier runs already contain both terms, and returns them.
  template <class Part>
  constexpr Buffer take_copies(Stages<Part>& stages) const {
    const auto [first, second] = copies(stages);
    Buffer earlier;
    for (auto* copy : {first, second}) {
      if (!copy) continue;
      earlier = copy->finished.sum();
      copy->finished.clear();
    }
    return earlier;
  }
  /// Sets its gradient to the sum of both, plus the earlier one.
  constexpr void add_up_copies(detail::ParameterState* first, detail::ParameterState* second,
                               const Buffer& earlier) const {
    const PhaseScope phase(job_.recorder(), Phase::optimizer);
    const auto add = [](detail::ParameterState& copy, Buffer more) {
      copy.finished.add(std::move(more), *copy.functions.sum, copy.stored.mesh.recorder());
    };
    if (first && second) {
      Buffer sum = first->finished.sum();
      add(*second, sum);
      first->finished.clear();
      add(*first, second->finished.sum());
    } else if (first || second) {
      detail::ParameterState& here = first ? *first : *second;
      const Layout& layout = here.layouts.finished;
      const RankGrid there = ranks_of(first ? stage_count() - 1 : 0).grid();
      const auto coming =
          detail::start_receiving(here.stored.unwritten(layout, MemoryUse::activation), there, layout);
      SendInFlight sent(detail::start_sending(here.finished_gradient(), there, layout));
      Buffer other = coming->finish().buffer;
      sent.wait();
      add(here, std::move(other));
    }
    for (auto* copy : {first, second}) {
      if (copy && earlier) add(*copy, earlier);
    }
  }
  constexpr double over_stages(double own, Phase phase) const {
    if (job_.template size<Axis>() == 1) return own;
    const PhaseScope scope(job_.recorder(), phase);
    constexpr AxisSet axis = 1u << Job::AxesOf::template index<Axis>;
    MeshView(job_).all_reduce(&own, 1, DataType::f64, ReduceOp::sum, axis);
    return own;
  }

  Job job_;
  PipelineSchedule schedule_;
  StageMesh mesh_;
};

}  // namespace shardwise
