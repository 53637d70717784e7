// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "plan_picture.hpp"

#include <cmath>

#include <shardwise/inspect/draw_step.hpp>
#include <shardwise/io/file.hpp>
#include <shardwise/schedule/draw.hpp>

#include "options.hpp"
#include "step_names.hpp"

namespace tools {

void add_draw_options(CLI::App& app, DrawOptions& options) {
  auto* file = app.add_option(
      "--draw", options.file,
      "draw the step of the first rank shown, or the schedule of a pipeline, to this SVG file");
  app.add_option("--tflops", options.tflops,
                 "speed of a rank in 10^12 operations per second, for the picture")
      ->check(CLI::PositiveNumber)
      ->needs(file);
  app.add_option(
         "--gigabytes", options.gigabytes,
         "bandwidth of collectives in 10^9 bytes per second, for all axes or for each of pp, replica, dp, "
         "tp and kvr")
      ->expected(1, 5)
      ->check(CLI::PositiveNumber)
      ->needs(file);
  app.add_option("--latency", options.microseconds, "latency of a call in microseconds")
      ->check(CLI::NonNegativeNumber)
      ->needs(file);
}

namespace {

std::string picture_of(const DrawOptions& options, const StepJob& job, const JobSizes& coordinates) {
  if (job.sizes[0] > 1) {
    const sw::PipelineSchedule schedule = schedule_of(job);
    return sw::draw(schedule, sw::LlamaPart::costs(job.model, schedule.rank_of_stage));
  }
  const std::vector<double>& given = options.gigabytes;
  if (given.size() != 1 && given.size() != job.sizes.size()) {
    throw std::invalid_argument("--gigabytes: one number, or one for each of pp, replica, dp, tp and kvr");
  }
  for (const double number : given) {
    if (!std::isfinite(number)) throw std::invalid_argument("--gigabytes is not a finite number");
  }
  if (!std::isfinite(options.microseconds)) throw std::invalid_argument("--latency is not a finite number");
  sw::Speeds speeds{.flops = 1e12 * options.tflops, .latency = 1e-6 * options.microseconds};
  for (std::size_t axis = 0; axis < job.sizes.size(); ++axis) {
    if (job.sizes[axis] > 1) speeds.bytes[axis] = 1e9 * given[given.size() == 1 ? 0 : axis];
  }
  sw::EventLog log;
  plan_step(job, coordinates, &log);
  return sw::draw(log.events(), step_names(job), speeds);
}

}  // namespace

void draw_step(const DrawOptions& options, const StepJob& job, const JobSizes& coordinates) {
  sw::write_file_atomically(options.file, picture_of(options, job, coordinates));
}

}  // namespace tools
