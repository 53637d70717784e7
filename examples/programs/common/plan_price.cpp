// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "plan_price.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <shardwise/schedule/prove.hpp>

namespace tools {

RankPrice price_of_rank(const StepJob& job, const JobSizes& at, const sw::Speeds& speeds) {
  sw::EventLog log;
  const JobPlan plan = plan_step(job, at, &log);
  RankPrice price{.bytes = plan.peak_bytes()};
  for (const auto use : {sw::MemoryUse::parameter, sw::MemoryUse::gradient, sw::MemoryUse::optimizer_state})
    price.of_model += plan.peak_bytes(use);
  for (const sw::Event& event : log.events()) {
    if (event.computes()) continue;
    if (event.moved > 0 && std::isinf(speeds.within))
      throw std::invalid_argument(
          "--speeds: the file has no speed within a host: measure with several ranks on it");
    if (event.across > 0 && std::isinf(speeds.across))
      throw std::invalid_argument("--speeds: the file has no speed across hosts: measure on several hosts");
    if (event.kind == sw::Collective::send && !event.waits) price.message = seconds_of(event, speeds);
  }
  const std::vector<sw::Event> timed = sw::with_times(log.events(), speeds);
  std::vector<double> reached = sw::arrivals(timed);
  double end = 0;
  for (const sw::Event& event : timed) end = std::max(end, event.end);
  reached.push_back(end);
  for (std::size_t i = 0; i < timed.size(); ++i)
    price.seconds[static_cast<std::size_t>(timed[i].phase)] += reached[i + 1] - reached[i];
  return price;
}

sw::Costs costs_of(const sw::PipelineSchedule& schedule, const std::vector<RankPrice>& of_micro_batch) {
  sw::Costs costs;
  std::vector<int> stages(of_micro_batch.size());
  for (const int rank : schedule.rank_of_stage) ++stages[static_cast<std::size_t>(rank)];
  for (const int number : schedule.rank_of_stage) {
    const auto rank = static_cast<std::size_t>(number);
    const auto part = [&](sw::Phase phase) {
      return of_micro_batch[rank].seconds[static_cast<std::size_t>(phase)] / stages[rank];
    };
    const double half = part(sw::Phase::backward) / 2;
    costs.stages.push_back({part(sw::Phase::forward), half, half});
    costs.message = std::max(costs.message, of_micro_batch[rank].message);
  }
  return costs;
}

namespace {

/// The prices of the ranks along pp.
std::vector<RankPrice> prices_along_pp(const StepJob& job, JobSizes at, const sw::Speeds& speeds) {
  std::vector<RankPrice> ranks;
  for (at[0] = 0; at[0] < job.sizes[0]; ++at[0]) ranks.push_back(price_of_rank(job, at, speeds));
  return ranks;
}

sw::Costs costs_of(const StepJob& job, std::vector<RankPrice> ranks) {
  for (RankPrice& price : ranks) {
    for (double& seconds : price.seconds) seconds /= static_cast<double>(job.micro_batches);
  }
  return costs_of(schedule_of(job), ranks);
}

}  // namespace

sw::Costs costs_of(const StepJob& job, const JobSizes& at, const sw::Speeds& speeds) {
  return costs_of(job, prices_along_pp(job, at, speeds));
}

double price_of(const StepJob& job, const JobSizes& at, const sw::Speeds& speeds, sw::Index* bytes) {
  const std::vector<RankPrice> ranks = prices_along_pp(job, at, speeds);
  double once = 0;
  sw::Index most = 0;
  for (const RankPrice& price : ranks) {
    once = std::max(once, price.seconds[static_cast<std::size_t>(sw::Phase::optimizer)]);
    most = std::max(most, price.bytes);
  }
  if (bytes) *bytes = most;
  if (ranks.size() == 1) return ranks.front().total();
  return sw::prove(schedule_of(job), costs_of(job, ranks)).time + once;
}

}  // namespace tools
