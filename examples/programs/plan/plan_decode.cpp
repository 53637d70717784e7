// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "plan_decode.hpp"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include <shardwise/inspect/plan_table.hpp>

#include "../common/token_plan.hpp"

namespace tools {

namespace {

/// The seconds of a token on one rank, if it waits for no other. Messages are not in the background.
double seconds_of(const TokenPlan& token, int bits, const MeasuredSpeeds& measured) {
  const double weights = measured.weights(bits);
  if (std::isinf(weights)) {
    throw std::invalid_argument("--speeds: the file has no speed of weights in " + std::to_string(bits) +
                                " bits: measure again");
  }
  const sw::Speeds speeds = measured.of(false);
  double seconds = 0;
  for (const sw::Event& event : token.events) {
    if (event.moved > 0 && !event.computes() && std::isinf(speeds.within))
      throw std::invalid_argument(
          "--speeds: the file has no speed within a host: measure with several ranks on it");
    if (event.across > 0 && std::isinf(speeds.across))
      throw std::invalid_argument("--speeds: the file has no speed across hosts: measure on several hosts");
    if (reads_weights(event)) {
      seconds += static_cast<double>(event.moved) / weights;
    } else {
      const bool computes = event.computes() && event.moved > 0;
      seconds += sw::seconds_of(event, speeds) + (computes ? measured.operation : 0);
    }
  }
  return seconds;
}

}  // namespace

void print_token(const StepJob& job, int bits, const MeasuredSpeeds* speeds, bool json) {
  TokenPlan most;
  int stage = 0;
  double seconds = 0;
  for (int pp = 0; pp < job.sizes[0]; ++pp) {  // a token passes through one stage after another
    TokenPlan token = plan_token(bits, job.sizes, job.model, {pp}, job.ranks_per_host);
    if (speeds) seconds += seconds_of(token, bits, *speeds);
    if (token.weights <= most.weights) continue;
    most = std::move(token);
    stage = pp;
  }
  if (json) {
    nlohmann::ordered_json result{{"weight_bits", bits},
                                  {"context", job.model.context},
                                  {"stage", stage},
                                  {"calls", most.plan.collectives()},
                                  {"bytes", most.plan.bytes()},
                                  {"flops", most.plan.flops()},
                                  {"weight_bytes", most.weights},
                                  {"cache_bytes", most.cache},
                                  {"peak_bytes", most.plan.peak_bytes()}};
    if (speeds) result["seconds_of_token"] = seconds;
    std::printf("%s\n", result.dump(2).c_str());
    return;
  }
  std::printf("the last token of a text of %td\n", job.model.context);
  const std::string title = "first rank" + (job.sizes[0] > 1 ? " of stage " + std::to_string(stage) : "");
  std::printf("%s", sw::plan_table(title.c_str(), most.plan).c_str());
  std::printf("  weights that it reads                 %s\n", sw::bytes_text(most.weights).c_str());
  std::printf("  cache of keys and values              %s\n", sw::bytes_text(most.cache).c_str());
  if (speeds) std::printf("  a token takes %.6f s: %.1f tokens per second\n", seconds, 1 / seconds);
}

}  // namespace tools
