// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The dry run of a training step, for one element type: `PLAN_TYPE`.

#include "plan_step.hpp"

#include <shardwise/data/load_batch.hpp>
#include <shardwise/mesh/dry_mesh.hpp>
#include <shardwise/models/llama/model.hpp>
#include <shardwise/train/adamw.hpp>

#include "../train_step.hpp"

namespace examples {

namespace {

using MeshType = TrainMesh<sw::DryMesh>;

/// As many tokens as one step needs, which nobody reads.
struct NoTokens {
  sw::Index count;
  sw::Index size() const { return count; }
  void copy(sw::Index, std::span<std::int32_t>) const {}
};

template <class T, class PlanType>
PlannedStep planned(const PlanJob& job, const std::array<int, 4>& coordinates) {
  const NoTokens tokens{job.batch * job.model.context + 1};
  const sw::BatchSampler sampler(
      tokens.size(), {.length = job.model.context, .batch = job.batch, .micro_batches = job.micro_batches});
  const StepOptions options{.micro_batches = job.micro_batches, .bucket_bytes = job.bucket_bytes};

  sw::Recorder recorder;
  const MeshType mesh(recorder, job.sizes, coordinates);
  sw::Llama<MeshType, PlanType, T> model(mesh, job.model);
  model.recompute_layers = job.recompute;
  sw::AdamW adamw({}, {.bucket_bytes = job.bucket_bytes});
  auto load = [&](sw::Index micro) { return sw::load_batch(mesh, tokens, sampler, 0, micro); };
  train_step(model, adamw, options, load);  // makes the optimizer's state
  recorder.restart();
  train_step(model, adamw, options, load);
  return {{recorder.record(), mesh.sizes()}, sw::parameter_count(model)};
}

template <class T, int ZeroLevel>
PlannedStep planned(const PlanJob& job, const std::array<int, 4>& coordinates) {
  return job.sequence_parallel ? planned<T, TrainPlan<ZeroLevel, true>>(job, coordinates)
                               : planned<T, TrainPlan<ZeroLevel, false>>(job, coordinates);
}

}  // namespace

template <class T>
PlannedStep plan_step(const PlanJob& job, const std::array<int, 4>& coordinates) {
  PlannedStep (*const levels[])(const PlanJob&, const std::array<int, 4>&) = {planned<T, 0>, planned<T, 1>,
                                                                              planned<T, 2>, planned<T, 3>};
  return levels[job.zero_level](job, coordinates);
}
template PlannedStep plan_step<PLAN_TYPE>(const PlanJob&, const std::array<int, 4>&);

}  // namespace examples
