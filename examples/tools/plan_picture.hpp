// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Pictures of planned steps.

#include <filesystem>
#include <vector>

#include "step_job.hpp"

namespace CLI {
class App;
}

namespace tools {

/// The file to draw, and the speeds for its times.
struct DrawOptions {
  std::filesystem::path file;
  double tflops = 100;
  std::vector<double> gigabytes{25};  ///< per second along all axes, or along each
  double microseconds = 10;           ///< additional time per call
};

void add_draw_options(CLI::App& app, DrawOptions& options);

/// Draws the step of the rank at `coordinates`; for a pipeline, its schedule. Throws `std::runtime_error` if the
/// file cannot be written.
void draw_step(const DrawOptions& options, const StepJob& job, const JobSizes& coordinates);

}  // namespace tools
