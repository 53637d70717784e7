// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The plans of each set, for the translation units that are compiled once for each type, and for one set: the one of these
/// macros that is defined says which, `STEP_USUAL` or `STEP_SELDOM`.

#include <type_traits>

#include "step_job.hpp"

namespace tools {

#if defined(STEP_USUAL)
inline constexpr PlanSet STEP_SET = PlanSet::usual;
#define FOR_EACH_PLAN(call)                                                                             \
  call(TrainPlan<0, false>) call(TrainPlan<0, true>) call(TrainPlan<1, false>) call(TrainPlan<1, true>) \
      call(TrainPlan<2, false>) call(TrainPlan<2, true>) call(TrainPlan<3, false>) call(TrainPlan<3, true>)
inline int plan_index(const StepJob& job) { return 2 * job.zero_level + (job.sequence_parallel ? 1 : 0); }
#else
inline constexpr PlanSet STEP_SET = PlanSet::seldom;
#define FOR_EACH_PLAN(call) \
  call(EmbeddingPlan<true>) call(EmbeddingPlan<false>) call(AdaptedPlan<8>) call(AdaptedPlan<16>)
inline int plan_index(const StepJob& job) {
  if (job.lora_rank == 0) return job.embedding == EmbeddingStyle::features ? 0 : 1;
  return job.lora_rank == 8 ? 2 : 3;
}
#endif

/// f(plan), of the job's plan as a `std::type_identity`. Throws `std::invalid_argument` for what no plan combines.
template <class Result, class F>
Result with_plan(const StepJob& job, F f) {
  check_combination(job);
  int left = plan_index(job);
#define CALL_WITH_PLAN(...) \
  if (left-- == 0) return f(std::type_identity<__VA_ARGS__>());
  FOR_EACH_PLAN(CALL_WITH_PLAN)
#undef CALL_WITH_PLAN
  throw std::logic_error("there is no such plan");
}

}  // namespace tools
