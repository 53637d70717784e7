// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The plans of each set, for the translation units that are compiled once for each type, and for one set: the one of these
/// macros that is defined says which, `STEP_FIRST` or `STEP_SECOND`.

#include <type_traits>

#include "step_job.hpp"

namespace tools {

#if defined(STEP_FIRST)
constexpr PlanSet STEP_SET = PlanSet::first;
#define FOR_EACH_PLAN(call)                                                                             \
  call(TrainPlan<0, false>) call(TrainPlan<0, true>) call(TrainPlan<1, false>) call(TrainPlan<1, true>) \
      call(AdaptedPlan<8>) call(AdaptedPlan<16>)
#else
constexpr PlanSet STEP_SET = PlanSet::second;
#define FOR_EACH_PLAN(call)                                                                             \
  call(TrainPlan<2, false>) call(TrainPlan<2, true>) call(TrainPlan<3, false>) call(TrainPlan<3, true>) \
      call(EmbeddingPlan<true>) call(EmbeddingPlan<false>)
#endif

/// The place of the job's plan among those of its set: the same in every translation unit, as inline functions are.
inline int place_in_set(const StepJob& job) {
  if (job.lora_rank > 0) return job.lora_rank == 8 ? 4 : 5;
  if (job.embedding != EmbeddingStyle::vocabulary) return job.embedding == EmbeddingStyle::features ? 4 : 5;
  return 2 * (job.zero_level % 2) + (job.sequence_parallel ? 1 : 0);
}

/// f(plan), of the job's plan as a `std::type_identity`. Throws `std::invalid_argument` for what no plan combines.
template <class Result, class F>
Result with_plan(const StepJob& job, F f) {
  check_combination(job);
  int left = place_in_set(job);
#define CALL_WITH_PLAN(...) \
  if (left-- == 0) return f(std::type_identity<__VA_ARGS__>());
  FOR_EACH_PLAN(CALL_WITH_PLAN)
#undef CALL_WITH_PLAN
  throw std::logic_error("there is no such plan");
}

}  // namespace tools
