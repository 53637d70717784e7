// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "plan_picture.hpp"

#include <shardwise/io/file.hpp>

#include "../common/plan_price.hpp"
#include "../common/step_trace.hpp"

namespace tools {

namespace {

std::string trace_of(const StepJob& job, const JobSizes& coordinates, const std::string& name,
                     const sw::Speeds& speeds, const std::string& command, std::string& blocks) {
  const std::string about = about_step(job, price_of(job, coordinates, speeds), command);
  if (job.sizes[0] > 1)
    return sw::trace_file(schedule_of(job), costs_of(job, coordinates, speeds), job.schedule + ": " + about,
                          true);
  sw::EventLog log;
  plan_step(job, coordinates, &log, nullptr, &blocks);
  sw::StepNames names = step_names(job);
  names.modules = &log;
  return sw::trace_file(sw::with_times(log.events(), speeds), names,
                        name + " (modelled: " + sw::speeds_text(speeds) + ")", about);
}

}  // namespace

void draw_step(const std::filesystem::path& file, const StepJob& job, const JobSizes& coordinates,
               const std::string& name, const sw::Speeds& speeds, const std::string& command) {
  std::string blocks;
  const std::string trace = trace_of(job, coordinates, name, speeds, command, blocks);
  sw::write_file_atomically(file, page_or_trace(file, trace, blocks));
}

}  // namespace tools
