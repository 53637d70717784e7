// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Names of the parts of a step for pictures and traces.

#include <shardwise/inspect/timeline.hpp>

#include "step_job.hpp"

namespace tools {

inline sw::StepNames step_names(const StepJob& job) {
  const auto& axes = JobPlan::AxesOf::names;
  sw::StepNames names{{axes.begin(), axes.end()}, {"tokens"}};
  for (sw::Index i = 0; i < job.model.layers; ++i) names.units.push_back("layers." + std::to_string(i));
  names.units.emplace_back("head");
  return names;
}

}  // namespace tools
