// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Selects the code compiled for a job's element type and set of plans; and the dry run of its step.

#include "trained_model.hpp"

#include <limits>

#include <shardwise/inspect/names.hpp>
#include <shardwise/llm/data/load_batch.hpp>

namespace tools {

namespace {

/// As many tokens as one step needs, which are never read.
struct NoTokens {
  sw::Index count;
  sw::Index size() const { return count; }
  void copy(sw::Index, std::span<std::int32_t>) const {}
};

}  // namespace

std::unique_ptr<TrainedModel> make_trained_model(const Job& mesh, const StepJob& job,
                                                 const TrainSettings& settings) {
  const auto of_type = [&]<class T>(T) {
    switch (set_of(job)) {
      case PlanSet::adapted:
        return make_trained_model<T, PlanSet::adapted>(mesh, job, settings);
      case PlanSet::frozen:
        return make_trained_model<T, PlanSet::frozen>(mesh, job, settings);
      case PlanSet::experts:
        return make_trained_model<T, PlanSet::experts>(mesh, job, settings);
      default:
        return make_trained_model<T, PlanSet::dense>(mesh, job, settings);
    }
  };
  return job.bf16 ? of_type(Eigen::bfloat16()) : of_type(float());
}

JobPlan plan_step(const StepJob& given, const JobSizes& coordinates, sw::EventLog* log, sw::Index* saved,
                  std::string* blocks) {
  StepJob job = given;
  if (job.local_steps > 1)
    job.local_steps = std::numeric_limits<int>::max();  // so that no planned step is the last
  const sw::Index sequences = job_of_replica(job).batch;
  const NoTokens tokens{sequences * job.model.context + 1};
  const sw::llm::BatchSampler sampler(
      tokens.size(), {.length = job.model.context, .batch = sequences, .micro_batches = job.micro_batches});
  const auto load = [&](const Mesh& mesh, sw::Index micro) {
    auto batch = sw::llm::load_batch(mesh, tokens, sampler, 0, micro);
    if (job.packed) batch.documents.emplace(mesh, batch.inputs.shape());
    return batch;
  };

  sw::Recorder recorder;
  const Job mesh(recorder, job.sizes, coordinates, job.ranks_per_host);
  const auto model = make_trained_model(mesh, job, {});
  const sw::Index bytes = model->saved_bytes();  // creates the optimizer's state
  if (saved != nullptr) *saved = bytes;
  recorder.restart();
  recorder.set_log(log);
  if (blocks != nullptr) {
    *blocks = model->blocks();
    if (log != nullptr) model->name_modules(*log);
  }
  model->make_step(2, 0, load);
  largest(mesh, 0);  // the check for a stop signal
  return {recorder.record(), mesh.sizes()};
}

StepJob within_memory(StepJob job, sw::Index bytes) {
  if (bytes == 0) return job;
  const std::vector<int> rank_of_stage = schedule_of(job).rank_of_stage;
  std::vector<int> fewest;
  for (int pp = 0; pp < job.sizes[0]; ++pp) {
    const auto peak = [&](int layers) {  // of ranks with the largest blocks, and other parts of the sequences
      job.recompute = {layers};
      const StepJob planned = with_exchange(job);
      return std::max(plan_step(planned, {pp}).peak_bytes(),
                      plan_step(planned, {pp, 0, 0, job.sizes[3] - 1}).peak_bytes());
    };
    // Each layer more needs no more memory; but the last one may, whose activations are in use at the end anyway.
    int all = 0;
    for (int stage = 0; stage < std::ssize(rank_of_stage); ++stage) {
      if (rank_of_stage[static_cast<std::size_t>(stage)] != pp) continue;
      all = std::max(all, static_cast<int>(sw::llm::LlamaPart::of(job.model, rank_of_stage, stage).layers));
    }
    int few = 0, enough = std::max(0, all - 1);
    if (const sw::Index without_last = peak(enough); without_last > bytes) {
      few = enough = all;
      if (const sw::Index least = std::min(without_last, peak(all)); least > bytes) {
        throw std::invalid_argument("--memory: the limit is " + sw::bytes_text(bytes) +
                                    ", but whatever layers are recomputed, a step needs " +
                                    sw::bytes_text(least) + ", which are " + std::to_string(least) +
                                    " bytes, on a rank" +
                                    (job.sizes[0] > 1 ? " at pp " + std::to_string(pp) : ""));
      }
    }
    while (few < enough) {
      const int middle = (few + enough) / 2;
      if (peak(middle) <= bytes) {
        enough = middle;
      } else {
        few = middle + 1;
      }
    }
    fewest.push_back(enough);
  }
  job.recompute = fewest;
  return job;
}

}  // namespace tools
