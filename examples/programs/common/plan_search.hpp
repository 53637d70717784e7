// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The search for the plan with the fastest step.

#include <map>
#include <string>
#include <vector>

#include "job_options.hpp"
#include "plan_price.hpp"

namespace tools {

/// Plans of one step on some ranks.
struct PlanSearch {
  struct Found {
    JobOptions options{};
    double seconds = 0;
    sw::Index bytes = 0;  ///< peak of memory on the rank that needs most
  };
  std::vector<Found> found{};               ///< that fit, the fastest first
  std::vector<Found> too_large{};           ///< the smallest first
  std::map<std::string, int> impossible{};  ///< reasons, and how many plans each refused
};

/// The options of `shardwise-train` that choose the plan.
std::string plan_options(const JobOptions& options);

/// Tries all sizes of pp, dp and tp; of cp, if a micro-batch has one sequence; replicas, if each is within a host, and
/// --zero shards it; schedules of pipelines; levels of --zero, and
/// --sp. Activations are kept, and recomputed; and the batch is divided into the fewest micro-batches, of 1, 2, 4, …,
/// with which a rank needs at most `memory` bytes; in a pipeline also into twice and four times as many. Steps of one
/// and two micro-batches are planned, and longer ones extrapolated; of the best plans, the whole steps are planned.
PlanSearch search_plans(const JobOptions& options, int ranks, sw::Index memory, const sw::Speeds& speeds);

}  // namespace tools
