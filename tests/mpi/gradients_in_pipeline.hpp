// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/pipeline/pipeline.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>

#include "ids_on.hpp"
#include "outcome.hpp"

namespace shardwise::testing {

/// The gradients of a Llama in two micro-batches, in a pipeline with a stage for each rank along `pp`.
template <class PlanType>
Outcome gradients_in_pipeline(const Mesh<pp, dp, tp>& job, const llm::LlamaConfig& config) {
  using Grid = Mesh<dp, tp>;
  using Stage = llm::Llama<Grid, PlanType, double>;
  const Pipeline pipeline(job, zb_h1(job.size<pp>(), 2));
  auto stages = pipeline.stages([&](int stage, const Grid& mesh) {
    return Stage(mesh, config, llm::LlamaPart::of(config, pipeline.schedule().rank_of_stage, stage));
  });
  initialize(stages, 5);
  pipeline.run(
      stages, Shape<3>{4, 6, config.features},
      [&](Tape& tape, Stage& part, int i) { return part.begin(tape.constant(ids_on(pipeline.mesh(), i))); },
      [](Stage& part, const auto& x) { return part.middle(x); },
      [&](Stage& part, const auto& x, int i) {
        return part.end(x, ids_on(pipeline.mesh(), i + 1), LinearCrossEntropyLoss());
      });
  pipeline.clip_gradients(stages, 1e9);
  return gradients_of(stages);
}

}  // namespace shardwise::testing
