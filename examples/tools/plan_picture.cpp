// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "plan_picture.hpp"

#include <shardwise/inspect/draw_step.hpp>
#include <shardwise/io/file.hpp>
#include <shardwise/schedule/draw.hpp>

#include "step_names.hpp"

namespace tools {

namespace {

std::string picture_of(const StepJob& job, const JobSizes& coordinates, const sw::Speeds& speeds) {
  if (job.sizes[0] > 1) {
    const sw::PipelineSchedule schedule = schedule_of(job);
    return sw::draw(schedule, sw::LlamaPart::costs(job.model, schedule.rank_of_stage));
  }
  sw::EventLog log;
  plan_step(job, coordinates, &log);
  return sw::draw(log.events(), step_names(job), speeds);
}

}  // namespace

void draw_step(const std::filesystem::path& file, const StepJob& job, const JobSizes& coordinates,
               const sw::Speeds& speeds) {
  sw::write_file_atomically(file, picture_of(job, coordinates, speeds));
}

}  // namespace tools
