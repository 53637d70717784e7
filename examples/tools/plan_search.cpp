// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "plan_search.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace tools {

PricedPlan price_step(const StepJob& job, const JobSizes& at, const sw::Speeds& speeds) {
  if (job.sizes[0] > 1) throw std::invalid_argument("the time of a pipeline is not modelled: use --pp 1");
  sw::EventLog log;
  const JobPlan plan = plan_step(job, at, &log);
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
  return {plan, sw::price(log.events(), speeds)};
}

namespace {

std::string options_of(const JobOptions& options) {
  std::string text = "--dp " + std::to_string(*options.dp) + " --tp " + std::to_string(options.tp) +
                     " --zero " + std::to_string(options.job.zero_level);
  if (options.job.sequence_parallel) text += " --sp";
  if (options.job.recompute) text += " --recompute";
  return text + " --micro-batches " + std::to_string(options.job.micro_batches);
}

/// With the fewest micro-batches that fit.
void try_plan(JobOptions options, sw::Index memory, const sw::Speeds& speeds, PlanSearch& search) {
  PlanSearch::Found smallest{.bytes = std::numeric_limits<sw::Index>::max()};
  for (sw::Index parts = 1; *options.dp * parts <= *options.batch; parts *= 2) {
    options.job.micro_batches = parts;
    if (*options.batch % parts != 0) break;
    const PricedPlan priced = price_step(job_of(options, 1), {}, speeds);
    const PlanSearch::Found found{options_of(options), priced.seconds, priced.plan.peak_bytes()};
    if (found.bytes <= memory) {
      search.found.push_back(found);
      return;
    }
    if (found.bytes < smallest.bytes) smallest = found;
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
