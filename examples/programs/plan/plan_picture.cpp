// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "plan_picture.hpp"

#include <shardwise/io/file.hpp>

#include "../common/step_trace.hpp"

namespace tools {

namespace {

std::string trace_of(const StepJob& job, const JobSizes& coordinates, const std::string& name,
                     const sw::Speeds& speeds) {
  if (job.sizes[0] > 1) {
    const sw::PipelineSchedule schedule = schedule_of(job);
    return sw::trace_file(schedule, sw::llm::LlamaPart::costs(job.model, schedule.rank_of_stage));
  }
  sw::EventLog log;
  plan_step(job, coordinates, &log);
  return sw::trace_file(sw::with_times(log.events(), speeds), step_names(job),
                        name + " (modelled: " + sw::speeds_text(speeds) + ")");
}

}  // namespace

void draw_step(const std::filesystem::path& file, const StepJob& job, const JobSizes& coordinates,
               const std::string& name, const sw::Speeds& speeds) {
  sw::write_file_atomically(file, page_or_trace(file, trace_of(job, coordinates, name, speeds)));
}

}  // namespace tools
