// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "plan_search.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace tools {

double price_of(const StepJob& job, const sw::EventLog& log, const sw::Speeds& speeds) {
  if (job.sizes[0] > 1) throw std::invalid_argument("the time of a pipeline is not modelled: use --pp 1");
  std::int64_t within = 0, across = 0;
  for (const sw::Event& event : log.events()) {
    within += event.computes() ? 0 : event.moved;
    across += event.across;
  }
  if (within > 0 && std::isinf(speeds.within)) {
    throw std::invalid_argument(
        "--speeds: the file has no speed within a host: measure with several ranks on it");
  }
  if (across > 0 && std::isinf(speeds.across))
    throw std::invalid_argument("--speeds: the file has no speed across hosts: measure on several hosts");
  return sw::price(log.events(), speeds);
}

namespace {

std::string options_of(const JobOptions& options) {
  std::string text = "--dp " + std::to_string(*options.dp) + " --tp " + std::to_string(options.tp) +
                     " --zero " + std::to_string(options.job.zero_level);
  if (options.job.sequence_parallel) text += " --sp";
  if (options.job.recompute) text += " --recompute";
  return text + " --micro-batches " + std::to_string(options.job.micro_batches);
}

/// A step, of which `parts` micro-batches of `batch` sequences are planned.
PlanSearch::Found plan_parts(JobOptions options, sw::Index parts, sw::Index batch, const sw::Speeds& speeds,
                             JobPlan& plan) {
  options.batch = parts * batch;
  options.job.micro_batches = parts;
  const StepJob job = job_of(options, 1);
  sw::EventLog log;
  plan = plan_step(job, {}, &log);
  return {options_of(options), price_of(job, log, speeds), plan.peak_bytes()};
}

/// Finds the fewest micro-batches with which the plan fits. At most two are planned: all later ones of a step take the
/// same time, and no more memory.
void try_plan(const JobOptions& options, sw::Index memory, const sw::Speeds& speeds, PlanSearch& search) {
  PlanSearch::Found smallest;
  smallest.bytes = std::numeric_limits<sw::Index>::max();
  for (sw::Index parts = 1; *options.dp * parts <= *options.batch && *options.batch % parts == 0;
       parts *= 2) {
    const sw::Index batch = *options.batch / parts;
    JobPlan plan;
    PlanSearch::Found found = plan_parts(options, std::min<sw::Index>(parts, 2), batch, speeds, plan);
    if (parts > 2) {
      JobPlan of_one;
      const double one = plan_parts(options, 1, batch, speeds, of_one).seconds;
      found.seconds += static_cast<double>(parts - 2) * (found.seconds - one);
      JobOptions all = options;
      all.job.micro_batches = parts;
      found.options = options_of(all);
    }
    if (found.bytes <= memory) {
      search.found.push_back(found);
      return;
    }
    if (found.bytes < smallest.bytes) smallest = found;
    sw::Index of_model = 0;  // what smaller micro-batches do not reduce
    for (const auto use : {sw::MemoryUse::parameter, sw::MemoryUse::gradient, sw::MemoryUse::optimizer_state})
      of_model += plan.peak_bytes(use);
    if (parts > 1 && of_model > memory) break;
  }
  search.too_large.push_back(smallest);
}

}  // namespace

PlanSearch search_plans(const JobOptions& given, int ranks, sw::Index memory, const sw::Speeds& speeds) {
  if (!given.batch) throw std::invalid_argument("--search needs --batch, the sequences of a step");
  PlanSearch search;
  for (int tp = 1; tp <= ranks; ++tp) {
    if (ranks % tp != 0) continue;
    for (int choice = 0; choice < 16; ++choice) {
      JobOptions options = given;
      options.tp = tp;
      options.dp = ranks / tp;
      options.job.zero_level = choice / 4;
      options.job.sequence_parallel = choice / 2 % 2 == 1;
      options.job.recompute = choice % 2 == 1;
      if ((options.job.zero_level > 0 && *options.dp == 1) || (options.job.sequence_parallel && tp == 1))
        continue;
      try {
        if (*options.dp > *given.batch) {
          throw std::invalid_argument("a batch of " + std::to_string(*given.batch) + " sequences for --dp " +
                                      std::to_string(*options.dp));
        }
        try_plan(options, memory, speeds, search);
      } catch (const std::invalid_argument& error) {
        ++search.impossible[error.what()];
      }
    }
  }
  std::sort(search.found.begin(), search.found.end(),
            [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  std::sort(search.too_large.begin(), search.too_large.end(),
            [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  return search;
}

}  // namespace tools
