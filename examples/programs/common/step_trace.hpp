// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Traces of steps: the names of their parts, and the forms of their files.

#include <filesystem>

#include <shardwise/inspect/page.hpp>
#include <shardwise/inspect/trace_file.hpp>
#include <shardwise/version.hpp>

#include "llama_presets.hpp"
#include "step_job.hpp"

namespace tools {

inline sw::StepNames step_names(const StepJob& job) {
  const auto& axes = JobPlan::AxesOf::names;
  sw::StepNames names{{axes.begin(), axes.end()}, {"tokens"}};
  for (sw::Index i = 0; i < job.model.layers; ++i) names.units.push_back("layers." + std::to_string(i));
  names.units.emplace_back("head");
  return names;
}

/// The lines of a picture of a step: the model, the mesh, the step, its speed and the command.
inline std::string about_step(const StepJob& job, double seconds, const std::string& command) {
  std::array<char, 100> speed{};
  std::snprintf(speed.data(), speed.size(), "%.4g s a step, %.0f tokens a second", seconds,
                static_cast<double>(job.batch * job.model.context) / seconds);
  return "A " + family_name(job.model) + " of " + parameters_text(job.model.parameters()) + ", " +
         sizes_text(job.sizes) + "\n" + std::to_string(job.batch) + " sequences of " +
         std::to_string(job.model.context) + " tokens a step, in " + std::to_string(job.micro_batches) +
         (job.micro_batches == 1 ? " micro-batch" : " micro-batches") + ", in " +
         (job.bf16 ? "bfloat16" : "float32") + "; ZeRO level " + std::to_string(job.zero_level) +
         split_text(job) + "; activations are " + recomputation_text(job) + unusual_in(job) + "\n" +
         speed.data() + "\n" + command + "\nShardwise " SHARDWISE_VERSION;
}

/// The text of a file for a trace: a page, with the blocks of parameters, if its name ends in .html.
inline std::string page_or_trace(const std::filesystem::path& file, const std::string& trace,
                                 const std::string& blocks) {
  return file.extension() == ".html" ? sw::page(trace, blocks) : trace;
}

}  // namespace tools
