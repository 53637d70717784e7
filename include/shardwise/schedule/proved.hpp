// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Schedules proved at compile time. A wrong one is an error at the line that uses it, with the place of the problem:
///
/// ```
/// constexpr PipelineSchedule mine() { return zb_v(4, 8); }
/// static_assert(Proved<mine>::ranks == 4);
///
/// error: incomplete type 'ScheduleError<Fault::its_input_is_never_received,
///     OnRank<1>, AtAction<7, Work::forward, OfStage<1>, OfMicroBatch<3>>>' used in nested name specifier
/// ```
/// `text_of(prove(mine()).problem)` is the same as a sentence.

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/schedule/messages.hpp>

namespace shardwise {

template <int Rank>
struct OnRank;
template <int Stage>
struct OfStage;
template <int MicroBatch>
struct OfMicroBatch;
/// The rank's action at this position, counted from 0; -1 if it is missing.
template <int Position, Work Kind, class Stage, class MicroBatch>
struct AtAction;
/// The conflicting action; see `ScheduleProblem::other`.
template <class Rank, class Action>
struct Meets;

/// The problem of a schedule, as a type that is never defined: see `layout/diagnosis.hpp`.
template <Fault Why, class... Where>
struct ScheduleError;

/// A proved schedule: complete, matched, ordered and free of deadlock; see `prove`.
template <auto Make, int Ranks, int Stages, int MicroBatches>
struct ProvedSchedule {
  static constexpr int ranks = Ranks;
  static constexpr int stages = Stages;
  static constexpr int micro_batches = MicroBatches;

  /// The schedule with its messages.
  static constexpr PipelineSchedule schedule() { return detail::lower(Make()).schedule; }
};

namespace detail {

/// The values that may leave constant evaluation.
struct ScheduleNumbers {
  int ranks = 0, stages = 0, micro_batches = 0;
  Fault fault = Fault::none;
  ScheduleAction at{}, other{};
};
constexpr ScheduleNumbers numbers_of(const PipelineSchedule& schedule) {
  const Lowered lowered = lower(schedule);
  return {schedule.ranks(),      schedule.stages(),  schedule.micro_batches,
          lowered.problem.fault, lowered.problem.at, lowered.problem.other};
}

template <auto Make>
constexpr bool makes() {
  return Make().ranks() >= 0;
}
template <auto Make>
concept MakesASchedule = requires {
  typename std::bool_constant<makes<Make>()>;
};

/// If the generator throws, its result is not constant: one error, which quotes the line with the text.
template <auto Make>
struct NoSchedule {
  static constexpr PipelineSchedule schedule() { return Make(); }
  static constexpr int ranks = 0, stages = 0, micro_batches = 0;
  static_assert(makes<Make>(), "the generator rejects this schedule: see the line with fail(…)");
};

template <auto Make>
  requires MakesASchedule<Make>
constexpr auto proved_or_error() {
  constexpr ScheduleNumbers numbers = numbers_of(Make());
  constexpr ScheduleAction at = numbers.at, other = numbers.other;
  using Here =
      AtAction<at.position, at.action.work, OfStage<at.action.stage>, OfMicroBatch<at.action.micro_batch>>;
  using There = AtAction<other.position, other.action.work, OfStage<other.action.stage>,
                         OfMicroBatch<other.action.micro_batch>>;
  if constexpr (numbers.fault == Fault::none) {
    return TypeIs<ProvedSchedule<Make, numbers.ranks, numbers.stages, numbers.micro_batches>>{};
  } else if constexpr (other.position < 0) {
    return TypeIs<ScheduleError<numbers.fault, OnRank<at.rank>, Here>>{};
  } else {
    return TypeIs<ScheduleError<numbers.fault, OnRank<at.rank>, Here, Meets<OnRank<other.rank>, There>>>{};
  }
}
template <auto Make>
  requires(!MakesASchedule<Make>)
constexpr auto proved_or_error() { return TypeIs<NoSchedule<Make>>{}; }

}  // namespace detail

/// `ProvedSchedule` for the `PipelineSchedule`, with or without messages, that the function `Make` returns; else a
/// `ScheduleError`.
template <auto Make>
using Proved = typename decltype(detail::proved_or_error<Make>())::type;

}  // namespace shardwise
