// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The plan of `shardwise-train --plan best`.

#include <filesystem>
#include <string>

#include "../common/job_options.hpp"

namespace tools {

/// The options of the plan with the fastest step for all ranks of the job, at the speeds in this file or of this name,
/// as "--dp 2 --tp 1 --zero 0 --micro-batches 1". A rank may use its part of its host's memory. Rank 0 searches, and says
/// what it found. Collective. Throws `std::invalid_argument` if no plan is possible, `std::runtime_error` for a wrong
/// file, on all ranks.
std::string best_plan(const JobOptions& options, const std::filesystem::path& speeds);

}  // namespace tools
