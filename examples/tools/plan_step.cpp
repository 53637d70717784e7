// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The dry run of a training step, for one element type, `STEP_TYPE`, and all plans of a set, `STEP_SET` (step_plans.hpp).

#include "step_plans.hpp"

#include <shardwise/compiled.hpp>
#include <shardwise/data/load_batch.hpp>
#include <shardwise/mesh/dry_mesh.hpp>
#include <shardwise/train/adamw.hpp>

#include "train_step.hpp"

namespace tools {

namespace {

using Job = JobMesh<sw::DryMesh>;
using Mesh = LlamaMesh<sw::DryMesh>;

/// As many tokens as one step needs, which nobody reads.
struct NoTokens {
  sw::Index count;
  sw::Index size() const { return count; }
  void copy(sw::Index, std::span<std::int32_t>) const {}
};

template <class T, class Plan>
StepPlan planned(const StepJob& job, const JobSizes& coordinates, sw::EventLog* log) {
  const NoTokens tokens{job.batch * job.model.context + 1};
  const sw::BatchSampler sampler(
      tokens.size(), {.length = job.model.context, .batch = job.batch, .micro_batches = job.micro_batches});
  const StepOptions options = step_options_of(job, 1);

  sw::Recorder recorder;
  const Job mesh(recorder, job.sizes, coordinates, job.ranks_per_host);
  const sw::Pipeline pipeline(mesh, schedule_of(job));
  auto stages = make_stages<sw::Llama<Mesh, Plan, T>>(pipeline, job);
  sw::AdamW adamw({}, options.reduction);
  auto load = [&](sw::Index micro) {
    auto batch = sw::load_batch(pipeline.mesh(), tokens, sampler, 0, micro);
    if (job.packed) batch.documents.emplace(pipeline.mesh(), batch.inputs.shape());
    return batch;
  };
  train_step(pipeline, stages, adamw, options, load);  // makes the optimizer's state
  recorder.restart();
  recorder.set_log(log);
  train_step(pipeline, stages, adamw, options, load);
  agree(mesh, true);  // whether to stop
  return {recorder.record(), mesh.sizes()};
}

}  // namespace

template <class T, PlanSet Set>
StepPlan plan_step(const StepJob& job, const JobSizes& coordinates, sw::EventLog* log) {
  return with_plan<Set>(
      job, [&]<class Plan>(std::type_identity<Plan>) { return planned<T, Plan>(job, coordinates, log); });
}
template StepPlan plan_step<STEP_TYPE, PlanSet::STEP_SET>(const StepJob&, const JobSizes&, sw::EventLog*);

}  // namespace tools
