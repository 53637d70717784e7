// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The price of a planned step in seconds, and the search for the plan that takes the fewest.

#include <limits>
#include <map>
#include <string>
#include <vector>

#include <shardwise/inspect/speeds.hpp>

#include "job_options.hpp"

namespace tools {

/// The seconds of a planned step. Throws `std::invalid_argument` for a pipeline, and if a speed that the step needs was
/// not measured.
double price_of(const StepJob& job, const sw::EventLog& log, const sw::Speeds& speeds);

/// Plans of one step on `ranks` ranks, without pipelines.
struct PlanSearch {
  struct Found {
    std::string options{};  ///< of `shardwise-train`
    double seconds = 0;
    sw::Index bytes = 0;  ///< peak of memory on the first rank
  };
  std::vector<Found> found{};               ///< that fit, the fastest first
  std::vector<Found> too_large{};           ///< the smallest first
  std::map<std::string, int> impossible{};  ///< reasons, and how many plans each refused
};

/// Tries all sizes of dp and tp, levels of --zero, and --sp. Activations are kept, and recomputed; and the batch is
/// divided into the fewest micro-batches, of 1, 2, 4, …, with which a rank needs at most `memory` bytes.
PlanSearch search_plans(const JobOptions& options, int ranks, sw::Index memory, const sw::Speeds& speeds);

}  // namespace tools
