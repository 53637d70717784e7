// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// From a schedule of computations to one that also says what is sent and received.

#include <shardwise/schedule/pipeline_schedule.hpp>

namespace shardwise {

/// The schedule with sends and receives: each result that another rank needs is sent right after the computation (after both,
/// if two overlap), and received at the same time.
///
/// All ranks take their turns in one sequence, in which a send and its receive stand side by side. As every rank's actions are a
/// part of that one sequence, they cannot wait for each other in a circle, even if a send waits for its receive and a receive for
/// its send; and between two ranks messages are received in the order in which they are sent. It is the sequence that
/// PyTorch's lowering takes: round after round over the ranks, each of which takes one step if what it needs has been sent.
///
/// Throws `std::invalid_argument` if the schedule has messages already, or if its ranks wait for each other.
constexpr PipelineSchedule with_messages(const PipelineSchedule& schedule) {
  if (schedule.has_messages()) detail::fail({"with_messages: the schedule has messages already"});
  const int stages = schedule.stages();
  const int micro_batches = schedule.micro_batches;
  // Of each stage and micro-batch, whether its input, and the gradient of its output, are on its rank.
  std::vector<char> has_input(static_cast<std::size_t>(stages * micro_batches), false);
  std::vector<char> has_gradient = has_input;
  for (int i = 0; i < micro_batches; ++i) {
    has_input[static_cast<std::size_t>(i)] = true;
    has_gradient[has_gradient.size() - 1 - static_cast<std::size_t>(i)] = true;
  }
  auto there = [&](const Action& action) {
    const auto i = static_cast<std::size_t>(action.stage * micro_batches + action.micro_batch);
    return action.work == Work::forward ? has_input[i]
                                        : action.work == Work::backward_weight || has_gradient[i];
  };

  PipelineSchedule result = schedule;
  for (auto& of_rank : result.actions) of_rank.clear();
  auto send = [&](const Action& action) {
    if (action.work == Work::backward_weight) return;
    const bool forward = action.work == Work::forward;
    const int to = action.stage + (forward ? 1 : -1);
    if (to < 0 || to == stages) return;
    (forward ? has_input : has_gradient)[static_cast<std::size_t>(to * micro_batches + action.micro_batch)] =
        true;
    const int from_rank = detail::at(schedule.rank_of_stage, action.stage);
    const int to_rank = detail::at(schedule.rank_of_stage, to);
    if (from_rank == to_rank) return;
    const Work sent = forward ? Work::send_forward : Work::send_backward;
    const Work received = forward ? Work::receive_forward : Work::receive_backward;
    detail::at(result.actions, from_rank).push_back({sent, action.stage, action.micro_batch});
    detail::at(result.actions, to_rank).push_back({received, to, action.micro_batch});
  };

  std::vector<std::size_t> next(schedule.actions.size(), 0);  // (without the 0, clang++ 14 does not evaluate it)
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      const std::vector<Action>& todo = schedule.actions[rank];
      const std::size_t begin = next[rank];
      if (begin == todo.size()) continue;
      const std::size_t end = begin + (todo[begin].overlaps_next && begin + 1 < todo.size() ? 2 : 1);
      if (!there(todo[begin]) || !there(todo[end - 1])) continue;
      for (std::size_t i = begin; i < end; ++i) result.actions[rank].push_back(todo[i]);
      for (std::size_t i = begin; i < end; ++i) send(todo[i]);
      next[rank] = end;
      progress = true;
    }
  }
  for (std::size_t rank = 0; rank < next.size(); ++rank) {
    if (next[rank] == schedule.actions[rank].size()) continue;
    detail::fail({"with_messages: rank ", rank, ", action ", next[rank], " (",
                  text_of(schedule.actions[rank][next[rank]]),
                  "): what it needs is never computed before it"});
  }
  return result;
}

}  // namespace shardwise
