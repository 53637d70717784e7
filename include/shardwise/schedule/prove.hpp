// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Proves that a pipeline schedule can be executed, before anything runs or at compile time.
///
/// ```
/// ScheduleProof proof = prove(with_messages(zb_h1(4, 8)));
/// if (!proof) std::cerr << text_of(proof.problem);
/// static_assert(prove(one_forward_one_backward(8, 32)).idle[0] == 7 * (1 + 2));
/// ```

#include <shardwise/schedule/find_problem.hpp>
#include <shardwise/schedule/timeline.hpp>

namespace shardwise {

/// The metrics of a proved schedule, or its problem and no metrics.
struct ScheduleProof {
  ScheduleProblem problem{};
  /// From the start of the first action to the end of the last one, on any rank.
  double time = 0;
  /// For each rank, the time without a computation.
  std::vector<double> idle{};
  /// For each rank, the part of the idle time between its first and its last action.
  std::vector<double> gaps{};
  /// For each rank, the peak number of activations: each belongs to one stage and micro-batch, and is kept from the
  /// forward to the end of the backward of weights.
  std::vector<int> live{};

  constexpr explicit operator bool() const { return problem.fault == Fault::none; }
};

namespace detail {

/// The first problem of a schedule; if there is none, also its timeline.
constexpr ScheduleProblem find_problem(const PipelineSchedule& schedule, const Costs& costs,
                                       Timeline& timeline) {
  ScheduleProblem problem = Check(schedule).find_problem();
  if (problem.fault != Fault::none) return problem;
  timeline = Walk(schedule, costs).run();
  if (!timeline.circle.empty()) {
    problem = {Fault::ranks_wait_for_each_other, timeline.circle[0], timeline.circle[1], timeline.circle};
  }
  return problem;
}

}  // namespace detail

/// Whether the schedule is
/// - complete: each stage has, for each micro-batch, one forward and one backward, whole or in two parts, on its
/// own rank;
/// - matched: each send has its receive, and messages between two ranks are received in the order in which they are
/// sent;
/// - ordered: everything that an action needs is done or received before it on its rank;
/// - free of deadlock, if sends block until their receives are reached and receives until their sends: the
/// strictest execution. With receives posted early or buffered sends there is less waiting, so the schedule
/// completes as well.
///
/// Without any messages, results of other ranks count as available as soon as they are computed: the proof then
/// covers the schedule that `with_messages` returns.
///
/// The metrics are those of the longest path through the schedule with these costs. Throws `std::invalid_argument`
/// if a cost is negative or not a number, or if their number is not that of the stages.
constexpr ScheduleProof prove(const PipelineSchedule& schedule, const Costs& costs = {}) {
  detail::check_costs("prove", costs, schedule.stages());
  ScheduleProof proof;
  detail::Timeline timeline;
  proof.problem = detail::find_problem(schedule, costs, timeline);
  if (!proof) return proof;
  for (double end : timeline.end) proof.time = std::max(proof.time, end);
  for (std::size_t rank = 0; rank < timeline.end.size(); ++rank) {
    const std::vector<Action>& actions = schedule.actions[rank];
    double busy = 0;
    int live = 0, most = 0;
    for (const Action& action : actions) {
      const Work work = action.work;
      if (is_message(work)) continue;
      busy += costs.of(action);
      if (work == Work::forward) most = std::max(most, ++live);
      if (work == Work::backward || work == Work::backward_weight) --live;
    }
    proof.idle.push_back(proof.time - busy);
    proof.gaps.push_back(timeline.end[rank] - timeline.begin[rank] - busy);
    proof.live.push_back(most);
  }
  return proof;
}

}  // namespace shardwise
