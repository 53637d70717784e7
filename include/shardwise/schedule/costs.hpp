// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the actions of a schedule cost: to say how long it takes, or to make one that takes as little as it can.

#include <limits>

#include <shardwise/schedule/pipeline_schedule.hpp>

namespace shardwise {

/// How long one stage's part of one micro-batch takes, in any unit. A whole backward takes as long as both of its parts.
struct StageCosts {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
};

/// The same of all stages, or of each. Two computations that overlap take as long as one after the other. A result is on another
/// rank `message` later. All are finite, and none is negative.
struct Costs {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
  double message = 0;
  std::vector<StageCosts> stages{};  ///< of each, instead of the three above; empty: all are alike

  constexpr double of(const Action& action) const {
    const StageCosts stage = stages.empty() ? StageCosts{forward, backward_input, backward_weight}
                                            : detail::at(stages, action.stage);
    switch (action.work) {
      case Work::forward:
        return stage.forward;
      case Work::backward:
        return stage.backward_input + stage.backward_weight;
      case Work::backward_input:
        return stage.backward_input;
      case Work::backward_weight:
        return stage.backward_weight;
      default:
        return 0;  // messages
    }
  }
};

namespace detail {

/// Throws `std::invalid_argument`, with the name of who asks, if a cost is negative, infinite or not a number, or if there is not one for
/// each stage.
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
