// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// Rank 1 never does the forward of micro-batch 1.
// expect: ScheduleError<Fault::forward_is_missing, OnRank<1>, AtAction<-1, Work::forward, OfStage<1>, OfMicroBatch<1>>>

#include <shardwise/schedule/csv.hpp>
#include <shardwise/schedule/proved.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
constexpr PipelineSchedule table() {
  return from_csv("0F0,0F1,0B0,0B1\n1F0,1B0,1B1\n");
}
static_assert(Proved<table>::ranks == 2);
#else
constexpr PipelineSchedule table() {
  return from_csv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
}
static_assert(Proved<table>::ranks == 2);
#endif
