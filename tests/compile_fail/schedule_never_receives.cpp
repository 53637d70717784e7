// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// What rank 0 sends for micro-batch 0 is never received.
// expect: ScheduleError<Fault::nothing_receives_it, OnRank<0>, AtAction<1, Work::send_forward, OfStage<0>, OfMicroBatch<0>>>

#include <shardwise/schedule/csv.hpp>
#include <shardwise/schedule/proved.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
constexpr PipelineSchedule table() {
  return from_csv("0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0\n");
}
static_assert(Proved<table>::ranks == 2);
#else
constexpr PipelineSchedule table() {
  return from_csv("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n");
}
static_assert(Proved<table>::ranks == 2);
#endif
