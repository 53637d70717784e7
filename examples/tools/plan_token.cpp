// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "plan_token.hpp"

#include <shardwise/mesh/dry_mesh.hpp>

#include "text_model.hpp"

namespace tools {

TokenPlan plan_token(const JobSizes& sizes, const sw::LlamaConfig& config) {
  using Job = JobMesh<sw::DryMesh>;
  return sw::trace<Job>(sizes, [&](const Job& job) {
    TextModel<Job> model(job, config);
    const auto id = sw::empty<std::int32_t, sw::Replicate, sw::Replicate, sw::Replicate, sw::Replicate>(
        model.mesh(), {1, 1});
    auto cache = model.make_cache(id, config.context);
    model.next(id, cache, [](const auto&) { return 0; });
  });
}

}  // namespace tools
