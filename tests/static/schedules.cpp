// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Pipeline schedules that the compiler makes and proves, of 8 ranks and 32 micro-batches.

#include <shardwise/schedule/by_costs.hpp>
#include <shardwise/schedule/csv.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <shardwise/schedule/proved.hpp>
#include <shardwise/schedule/v_shapes.hpp>

namespace shardwise {
namespace {

constexpr PipelineSchedule of_1f1b() { return one_forward_one_backward(8, 32); }
constexpr PipelineSchedule of_zb_v() { return zb_v(8, 32); }
constexpr PipelineSchedule of_a_table() { return from_csv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"); }
static_assert(Proved<of_1f1b>::ranks == 8);
static_assert(Proved<of_zb_v>::stages == 16);
static_assert(Proved<of_a_table>::micro_batches == 2);
static_assert(Proved<of_a_table>::schedule() == with_messages(one_forward_one_backward(2, 2)));

constexpr bool idle_and_live() {
  const ScheduleProof zero_bubble = prove(zb_v(8, 32));
  for (double gap : zero_bubble.gaps) {
    if (gap != 0) return false;
  }
  const ScheduleProof dual = prove(dualpipe_v(4, 8));
  return zero_bubble.live[7] == 16 && dual.idle[0] == 6 && prove(gpipe(8, 32)).live[0] == 32 &&
         prove(interleaved(4, 2, 8)).idle[3] == 9 && prove(zb_h1(8, 32)).idle[5] == 7;
}
static_assert(idle_and_live());

constexpr PipelineSchedule of_costs() {
  return by_costs({0, 1, 2, 3, 4, 5, 6, 7}, 32, {.backward_input = 1.5, .message = 0.5});
}
static_assert(Proved<of_costs>::stages == 8);

constexpr bool finds_the_circle() {
  PipelineSchedule schedule = with_messages(one_forward_one_backward(2, 2));
  std::swap(schedule.actions[1][2], schedule.actions[1][3]);  // 1RECV_F1 after 1B0 and before 1SEND_B0,
  std::swap(schedule.actions[1][3], schedule.actions[1][4]);  // and after that
  const ScheduleProblem problem = prove(schedule).problem;
  return problem.fault == Fault::ranks_wait_for_each_other && problem.circle.size() == 2 &&
         problem.at.rank == 0 && problem.at.position == 3 && problem.other.position == 3;
}
static_assert(finds_the_circle());

}  // namespace
}  // namespace shardwise
