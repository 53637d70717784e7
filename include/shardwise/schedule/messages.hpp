// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Adds sends and receives to a schedule of computations.

#include <shardwise/schedule/prove.hpp>

namespace shardwise {

namespace detail {

/// For a schedule of computations. Returns no ranks if an action is out of range or waits forever: `prove` then
/// reports why.
constexpr PipelineSchedule add_messages(const PipelineSchedule& schedule) {
  const int stages = schedule.stages();
  const int micro_batches = schedule.micro_batches;
  const int* const rank_of = schedule.rank_of_stage.data();
  if (stages < 1 || micro_batches < 1) return {};
  for (int rank : schedule.rank_of_stage) {
    if (rank < 0 || rank >= schedule.ranks()) return {};
  }
  // For each stage and micro-batch, whether its input, and its output's gradient, are on its rank or sent to it.
  std::vector<char> inputs(product(stages, micro_batches), 0);
  std::vector<char> gradients = inputs;
  char* const has_input = inputs.data();
  char* const has_gradient = gradients.data();
  for (int i = 0; i < micro_batches; ++i) has_input[i] = has_gradient[(stages - 1) * micro_batches + i] = 1;
  auto ready = [&](const Action& action) {
    const int stage = action.stage, i = action.micro_batch;
    if (stage < 0 || stage >= stages || i < 0 || i >= micro_batches) return false;
    if (action.work == Work::backward_weight) return true;
    return (action.work == Work::forward ? has_input : has_gradient)[stage * micro_batches + i] != 0;
  };

  PipelineSchedule result{micro_batches, schedule.rank_of_stage, {}};
  for (const auto& of_rank : schedule.actions) {
    result.actions.emplace_back();
    result.actions.back().reserve(3 * of_rank.size());
  }
  auto send = [&](const Action& action) {
    if (action.work == Work::backward_weight) return;
    const bool forward = action.work == Work::forward;
    const int to = action.stage + (forward ? 1 : -1);
    if (to < 0 || to == stages) return;
    (forward ? has_input : has_gradient)[to * micro_batches + action.micro_batch] = 1;
    if (rank_of[action.stage] == rank_of[to]) return;
    const Action message{forward ? Work::send_forward : Work::send_backward, action.stage,
                         action.micro_batch};
    at(result.actions, rank_of[action.stage]).push_back(message);
    at(result.actions, rank_of[to]).push_back(partner_of(message));
  };

  // (Without the 0, clang++ 14 does not evaluate it.)
  std::vector<std::size_t> next(schedule.actions.size(), 0);
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      if (next[rank] == schedule.actions[rank].size()) continue;
      const Action* const action = schedule.actions[rank].data() + next[rank];
      const std::size_t count =
          action->overlaps_next && next[rank] + 1 < schedule.actions[rank].size() ? 2 : 1;
      if (!ready(action[0]) || !ready(action[count - 1])) continue;
      for (std::size_t i = 0; i < count; ++i) result.actions[rank].push_back(action[i]);
      for (std::size_t i = 0; i < count; ++i) send(action[i]);
      next[rank] += count;
      progress = true;
    }
  }
  for (std::size_t rank = 0; rank < next.size(); ++rank) {
    if (next[rank] < schedule.actions[rank].size()) return {};
  }
  return result;
}

struct Lowered {
  PipelineSchedule schedule{};
  ScheduleProblem problem{};
};
[[gnu::noinline]] constexpr Lowered lower(const PipelineSchedule& schedule) {
  Lowered lowered;
  Timeline timeline;
  if (schedule.has_messages()) {
    lowered.schedule = schedule;
    lowered.problem = find_problem(schedule, {}, timeline);
    return lowered;
  }
  lowered.schedule = add_messages(schedule);
  if (lowered.schedule.ranks() > 0) lowered.problem = find_problem(lowered.schedule, {}, timeline);
  if (lowered.schedule.ranks() == 0 || lowered.problem.fault != Fault::none) {
    lowered.problem = find_problem(schedule, {}, timeline);  // with positions in this table
  }
  return lowered;
}

}  // namespace detail

/// The schedule with sends and receives: each result that another rank needs is sent right after the computation
/// (after both, if two overlap), and received at the same time.
///
/// All ranks' actions are part of one global sequence, in which a send and its receive are adjacent. So ranks
/// cannot wait for each other in a cycle, even if a send blocks until its receive and vice versa; and between two
/// ranks, messages are received in the order in which they are sent. The sequence is the one of PyTorch's lowering:
/// in each round, every rank takes one step if the data that it needs have been sent.
///
/// A schedule with messages is returned unchanged. The result is proved (see `prove`). Throws `std::invalid_argument`,
/// with the first problem, if it cannot be executed. (`Proved` does the same at compile time.)
constexpr PipelineSchedule with_messages(const PipelineSchedule& schedule) {
  detail::Lowered lowered = detail::lower(schedule);
  if (lowered.problem.fault != Fault::none) detail::fail({"pipeline schedule: ", text_of(lowered.problem)});
  return std::move(lowered.schedule);
}

}  // namespace shardwise
