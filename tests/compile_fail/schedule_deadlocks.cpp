// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// Both ranks send, and receive only after that.
// expect: ScheduleError<Fault::ranks_wait_for_each_other, OnRank<0>, AtAction<3, Work::send_forward, OfStage<0>, OfMicroBatch<1>>, Meets<OnRank<1>, AtAction<3, Work::send_backward, OfStage<1>, OfMicroBatch<0>>>>

#include <shardwise/schedule/csv.hpp>
#include <shardwise/schedule/proved.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
constexpr PipelineSchedule table() {
  return from_csv(
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n");
}
static_assert(Proved<table>::ranks == 2);
#else
constexpr PipelineSchedule table() {
  return from_csv(
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1B0,1RECV_F1,1SEND_B0,1F1,1B1,1SEND_B1\n");
}
static_assert(Proved<table>::ranks == 2);
#endif
