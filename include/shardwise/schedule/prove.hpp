// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The proof that a pipeline schedule can be carried out, on paper: before anything runs, or in the compiler.
///
/// ```
/// ScheduleProof proof = prove(with_messages(zb_h1(4, 8)));
/// if (!proof) std::cerr << text_of(proof.problem);
/// static_assert(prove(one_forward_one_backward(8, 32)).idle[0] == 7 * (1 + 2));
/// ```

#include <shardwise/schedule/find_problem.hpp>
#include <shardwise/schedule/timeline.hpp>

namespace shardwise {

/// Numbers of a schedule that is proved, else its problem and no numbers.
struct ScheduleProof {
  ScheduleProblem problem{};
  /// From the beginning of the first action to the end of the last one, on any rank.
  double time = 0;
  /// For each rank, how much of this time it computes nothing.
  std::vector<double> idle{};
  /// For each rank, how much of that is after its first action and before its last one.
  std::vector<double> gaps{};
  /// For each rank, how many activations it keeps at most: of one stage and micro-batch each, from its forward until the end
  /// of the backward of its weights.
  std::vector<int> live{};

  constexpr explicit operator bool() const { return problem.fault == Fault::none; }
};

namespace detail {

/// The first problem of a schedule; if there is none, its timeline as well.
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
/// - complete: each stage has, for each micro-batch, one forward and one backward, whole or in two parts, on its own rank;
/// - matched: each send has its receive, and what one rank sends another is received in the same order;
/// - ordered: before each action, its rank has done or received all that it needs;
/// - free of deadlock, with a send that waits until its receive is reached, and a receive that waits for its send: the
///   strictest way to carry it out. Whoever posts receives early or lets sends go on waits less, so they end as well.
///
/// If it has no messages at all, results of other ranks are there as soon as they are computed: then it is proved that
/// `with_messages` can add them.
///
/// The numbers are of the longest path through the schedule with those costs. Throws `std::invalid_argument` if one of them is
/// negative or not a number, or if there is not one for each stage.
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
