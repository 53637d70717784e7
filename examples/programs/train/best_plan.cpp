// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "best_plan.hpp"

#include <cstdio>
#include <stdexcept>

#include <shardwise/guard/agreement.hpp>
#include <shardwise/inspect/names.hpp>

#include "../common/host_memory.hpp"
#include "../common/job_hosts.hpp"
#include "../common/plan_search.hpp"
#include "../common/speeds_file.hpp"

namespace tools {

std::string best_plan(const JobOptions& given, const std::filesystem::path& speeds) {
  const sw::Communicator world = sw::world();
  const sw::Hosts& hosts = world.hosts();
  double memory = memory_limit().bytes / static_cast<double>(hosts.ranks_on(hosts.of(world.rank())).size());
  world.all_reduce(&memory, &memory, 1, sw::DataType::f64, sw::ReduceOp::min);
  std::string options;
  sw::throw_on_all_ranks(world, "--plan best", [&] {
    if (world.rank() != 0) return;
    JobOptions job = given;
    if (hosts.count() > 1) job.job.ranks_per_host = ranks_per_host(hosts);
    if (hosts.count() > 1 && job.job.ranks_per_host == 0)
      throw std::invalid_argument("each host must have as many ranks, one after another");
    const PlanSearch search =
        search_plans(job, world.size(), static_cast<sw::Index>(memory),
                     speeds_of(speeds.string(), job.job.ranks_per_host).speeds.of(job.job.bf16));
    if (search.found.empty()) {
      throw std::invalid_argument(
          search.too_large.empty()
              ? search.impossible.begin()->first
              : "the smallest plan needs " + sw::bytes_text(search.too_large.front().bytes) +
                    " on a rank, which has " + sw::bytes_text(static_cast<sw::Index>(memory)) + ": " +
                    plan_options(search.too_large.front().options));
    }
    const PlanSearch::Found& best = search.found.front();
    options = plan_options(best.options);
    std::printf("the fastest of %zu plans: %s; %.4g s a step, %s on a rank\n", search.found.size(),
                options.c_str(), best.seconds, sw::bytes_text(best.bytes).c_str());
  });
  return world.broadcast(options);
}

}  // namespace tools
