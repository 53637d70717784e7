// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The price of a planned step in seconds.

#include <array>
#include <vector>

#include <shardwise/inspect/speeds.hpp>
#include <shardwise/schedule/costs.hpp>

#include "step_job.hpp"

namespace tools {

/// The seconds and the memory of a planned step on one rank, if it waits for no other rank.
struct RankPrice {
  std::array<double, sw::phases> seconds{};  ///< for each phase
  double message = 0;                        ///< seconds of a message between stages
  sw::Index bytes = 0;                       ///< peak of memory
  sw::Index of_model = 0;                    ///< of these, parameters, gradients and optimizer state

  double total() const { return seconds[0] + seconds[1] + seconds[2]; }
};

/// Throws `std::invalid_argument` if a speed that the step needs was not measured.
RankPrice price_of_rank(const StepJob& job, const JobSizes& at, const sw::Speeds& speeds);

/// The costs of a pipeline's stages in seconds, if a rank spends these seconds in the forward and the backward passes
/// of one micro-batch. A rank's stages cost the same, and so do the two parts of a backward.
sw::Costs costs_of(const sw::PipelineSchedule& schedule, const std::vector<RankPrice>& of_micro_batch);

/// The costs of the stages of the pipeline that the rank at these coordinates belongs to.
sw::Costs costs_of(const StepJob& job, const JobSizes& at, const sw::Speeds& speeds);

/// The seconds of a planned step on the rank at these coordinates, with the time that a stage waits for others. Throws
/// `std::invalid_argument` if a speed that the step needs was not measured. `bytes`: receives the peak of memory of the
/// rank of the pipeline that needs most.
double price_of(const StepJob& job, const JobSizes& at, const sw::Speeds& speeds, sw::Index* bytes = nullptr);

}  // namespace tools
