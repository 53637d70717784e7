// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Plans that name layers by their numbers, with files and pipelines.

#include <shardwise/checkpoint/load.hpp>
#include <shardwise/checkpoint/save.hpp>
#include <shardwise/models/llama/files.hpp>
#include <shardwise/pipeline/pipeline.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <support/plans.hpp>

#include "by_number.hpp"
#include "scratch_folder.hpp"

namespace shardwise::testing {
namespace {

TEST_CASE("a checkpoint goes from layers that are alike to some that are not, and back") {
  const ScratchFolder folder;
  const Grid mesh(world(), {any, 1});
  Llama<Grid, Alike, double> alike(mesh, config);
  Llama<Grid, Whole, double> some(Grid(world(), {1, any}), config);
  initialize(alike, 5);
  initialize(some, 6);
  save_llama(alike, folder.path() / "model");
  load_llama(some, folder.path() / "model");
  CHECK(values_of(some) == values_of(alike));
}

using Job = Mesh<pp, dp, tp>;
template <class PlanType>
Outcome in_pipeline(const Job& job) {
  using Part = Llama<Grid, PlanType, double>;
  const Pipeline pipeline(job, one_forward_one_backward(job.size<pp>(), 2));
  auto stages = pipeline.stages([&](int stage, const auto& mesh) {
    return Part(mesh, config, LlamaPart::of(config, pipeline.schedule().rank_of_stage, stage));
  });
  initialize(stages, 5);
  const auto batch = [&](int i) { return ids_on(pipeline.mesh(), i); };
  pipeline.run(
      stages, {4, 6, config.features},
      [&](Tape& tape, Part& part, int i) { return part.begin(tape.constant(batch(i))); },
      [](Part& part, const auto& x, int) { return part.middle(x); },
      [&](Part& part, const auto& x, int i) { return part.end(x, batch(i + 1), LinearCrossEntropyLoss()); });
  pipeline.clip_gradients(stages, 1);
  AdamW().step(stages);
  return values_of(stages);
}

TEST_CASE("a pipeline: a part of the layers has their numbers in the whole") {
  const int ranks = world().size();
  const Job job(world(), {ranks % 3 == 0 ? 3 : ranks % 2 == 0 ? 2 : 1, 1, any});
  const auto right = in_pipeline<Alike>(job);
  check_equal(in_pipeline<PlanWith<Whole, FullyShard<dp>>>(job), right);
}

}  // namespace
}  // namespace shardwise::testing
