// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Traces of steps: the names of their parts, and the forms of their files.

#include <filesystem>

#include <shardwise/inspect/page.hpp>
#include <shardwise/inspect/trace_file.hpp>

#include "step_job.hpp"

namespace tools {

inline sw::StepNames step_names(const StepJob& job) {
  const auto& axes = JobPlan::AxesOf::names;
  sw::StepNames names{{axes.begin(), axes.end()}, {"tokens"}};
  for (sw::Index i = 0; i < job.model.layers; ++i) names.units.push_back("layers." + std::to_string(i));
  names.units.emplace_back("head");
  return names;
}

/// The text of a file for a trace: a page if its name ends in .html.
inline std::string page_or_trace(const std::filesystem::path& file, const std::string& trace) {
  return file.extension() == ".html" ? sw::page(trace) : trace;
}

}  // namespace tools
