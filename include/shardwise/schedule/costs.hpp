// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The costs of a schedule's actions: to compute its duration, or to generate a short schedule.

#include <limits>

#include <shardwise/schedule/pipeline_schedule.hpp>

namespace shardwise {

/// The duration of one stage's part of one micro-batch, in any unit. A whole backward takes as long as both of its
/// parts.
struct StageCosts {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
};

/// The costs of all stages, alike or one by one. Two overlapping computations take as long as in sequence. A result
/// reaches another rank after `message`. All must be finite and not negative.
struct Costs {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
  double message = 0;
  std::vector<StageCosts> stages{};  ///< instead of the three above; empty: all stages are alike

  constexpr double of(const Action& action) const {
    const StageCosts stage = stages.empty() ? StageCosts{forward, backward_input, backward_weight}
                                            : detail::at(stages, action.stage);
    const bool whole = action.work == Work::backward;
    if (action.work == Work::forward) return stage.forward;
    return (whole || action.work == Work::backward_input ? stage.backward_input : 0) +  // a message: 0
           (whole || action.work == Work::backward_weight ? stage.backward_weight : 0);
  }
};

namespace detail {

/// Throws `std::invalid_argument`, beginning with `who`, if a cost is negative, infinite or not a number, or if the
/// number of stages is different.
constexpr void check_costs(const char* who, const Costs& costs, int stages) {
  const auto check = [&](double cost) {
    if (!(cost >= 0 && cost <= std::numeric_limits<double>::max())) {
      fail({who, ": a cost of ", cost, "; expected a finite one, and none below 0"});
    }
  };
  for (double cost : {costs.forward, costs.backward_input, costs.backward_weight, costs.message}) check(cost);
  for (const StageCosts& stage : costs.stages) {
    for (double cost : {stage.forward, stage.backward_input, stage.backward_weight}) check(cost);
  }
  if (!costs.stages.empty() && static_cast<int>(costs.stages.size()) != stages) {
    fail({who, ": costs of ", costs.stages.size(), " stages; expected ", stages});
  }
}

}  // namespace detail

}  // namespace shardwise
