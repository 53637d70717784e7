// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "plan_token.hpp"

#include <shardwise/mesh/dry_mesh.hpp>
#include <shardwise/models/llama/model.hpp>

namespace tools {

TokenPlan plan_token(const JobSizes& sizes, const sw::LlamaConfig& config) {
  using Dry = LlamaMesh<sw::DryMesh>;
  return sw::trace<Dry>({1, 1, sizes[3], sizes[4]}, [&](const Dry& mesh) {
    const sw::Llama<Dry, TextPlan> model(mesh, config);
    const auto id =
        sw::empty<std::int32_t, sw::Replicate, sw::Replicate, sw::Replicate, sw::Replicate>(mesh, {1, 1});
    auto cache = model.make_cache(id, config.context);
    sw::redistribute<sw::Replicate, sw::Replicate, sw::Replicate, sw::Replicate>(model.next(id, cache));
  });
}

}  // namespace tools
