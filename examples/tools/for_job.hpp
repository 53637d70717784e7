// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// From a job to what is compiled for its element type and its set of plans. Only those who call it include this: where a
/// step is compiled, it would ask for all of them.

#include "step_job.hpp"

namespace tools {

/// Calls f<T, Set>(), of the type and the set that the job says.
template <class F>
auto for_job(const StepJob& job, F f) {
  const auto of_type = [&]<class T>(T) {
    if (set_of(job) == PlanSet::first) return f.template operator()<T, PlanSet::first>();
    return f.template operator()<T, PlanSet::second>();
  };
  return job.bf16 ? of_type(Eigen::bfloat16()) : of_type(float());
}

inline StepPlan plan_step(const StepJob& job, const JobSizes& coordinates, sw::EventLog* log = nullptr) {
  return for_job(job, [&]<class T, PlanSet Set>() { return plan_step<T, Set>(job, coordinates, log); });
}

}  // namespace tools
