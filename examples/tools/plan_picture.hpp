// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Pictures of planned steps.

#include <filesystem>

#include <shardwise/inspect/speeds.hpp>

#include "step_job.hpp"

namespace tools {

/// Draws the step of the rank at `coordinates`; for a pipeline, its schedule. Throws `std::runtime_error` if the
/// file cannot be written.
void draw_step(const std::filesystem::path& file, const StepJob& job, const JobSizes& coordinates,
               const sw::Speeds& speeds);

}  // namespace tools
