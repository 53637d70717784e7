// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Pictures of planned steps.

#include <filesystem>

#include <shardwise/inspect/speeds.hpp>

#include "../common/step_job.hpp"

namespace tools {

/// Writes the step of the rank at `coordinates`, which is called `name`, or the schedule of a pipeline: as a page or a
/// trace, see `page_or_trace`. Throws `std::runtime_error` if the file cannot be written.
void draw_step(const std::filesystem::path& file, const StepJob& job, const JobSizes& coordinates,
               const std::string& name, const sw::Speeds& speeds, const std::string& command);

}  // namespace tools
