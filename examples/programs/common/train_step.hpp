// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// One training step of a Llama, for `train` on a real mesh, and for `plan` on a dry one of any size.

#include <shardwise/autograd/tape.hpp>
#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/pipeline/pipeline.hpp>
#include <shardwise/tensor/distribute.hpp>

#include "step_job.hpp"

namespace tools {

namespace sw = shardwise;

struct StepOptions {
  sw::Index micro_batches = 1;  ///< parts of the batch that run one after another
  sw::Shape<3> activations{};   ///< of one micro-batch, between two layers
  double max_norm = 1;          ///< the norm to which gradients are clipped
  bool packed = false;          ///< batches have documents, which do not see each other
  sw::ReduceOptions reduction = {};
};

constexpr StepOptions step_options_of(const StepJob& job, double max_norm) {
  return {.micro_batches = job.micro_batches,
          .activations = {job.batch / job.micro_batches, job.model.context, job.model.features},
          .max_norm = max_norm,
          .packed = job.packed,
          .reduction = {.bucket_bytes = job.bucket_bytes, .in_background = job.in_background}};
}

/// The stages of a rank, before the first step.
template <class Llama, class Pipeline>
constexpr sw::Stages<Llama> make_stages(const Pipeline& pipeline, const StepJob& job) {
  return pipeline.stages([&](int stage, const auto& mesh) {
    Llama part(mesh, model_of(job),
               sw::llm::LlamaPart::of(job.model, pipeline.schedule().rank_of_stage, stage));
    const int rank = pipeline.schedule().rank_of_stage[static_cast<std::size_t>(stage)];
    part.recompute_first = recomputed_layers(job, rank);
    part.recompute_layers = part.recompute_first > 0;
    if (job.zero_level < 3) sw::lower_zero_level(part, job.zero_level);
    if (const auto& types = job.communicate_as) sw::set_communication(part, types->front(), types->back());
    return part;
  });
}

/// Always continues with the update.
struct Always {
  constexpr bool operator()(const StepResult&) const { return true; }
};

/// The passes of one step; returns its loss.
template <class Pipeline, class Llama, class Load>
constexpr double run_passes(const Pipeline& pipeline, sw::Stages<Llama>& stages, const StepOptions& options,
                            Load load) {
  const sw::LinearCrossEntropyLoss sum_of_losses({.reduction = sw::Reduction::sum});
  auto mean_of = [](const auto& sum, sw::Index counted) {
    return sw::scale(sum, 1 / static_cast<double>(counted));
  };
  if (pipeline.stage_count() > 1) {
    return pipeline.run(
        stages, options.activations,
        [&](sw::Tape& tape, Llama& part, int i) { return part.begin(tape.constant(load(i).inputs)); },
        [&](Llama& part, const auto& x, int i) {
          if (options.packed) return part.middle(x, *load(i).documents);
          return part.middle(x);
        },
        [&](Llama& part, const auto& x, int i) {
          const auto batch = load(i);
          return mean_of(part.end(x, batch.targets, sum_of_losses), batch.counted);
        },
        options.reduction);
  }
  Llama& model = stages.at(0);
  sw::ReduceOptions reduction = options.reduction;
  double mean = 0;
  for (sw::Index i = 0; i < options.micro_batches; ++i) {
    const auto batch = load(i);
    sw::Tape tape;
    const auto sum = [&] {  // `if`s, because g++ 12 miscounts the handles of `?:` in constants
      if (options.packed) {
        return model(tape.constant(batch.inputs), *batch.documents, batch.targets, sum_of_losses);
      }
      return model(tape.constant(batch.inputs), batch.targets, sum_of_losses);
    };
    auto loss = mean_of(sum(), batch.counted);
    reduction.last = i + 1 == options.micro_batches;
    sw::backward_and_reduce(loss, model, reduction);
    if (!loss.mesh().dry()) mean += static_cast<double>(sw::item(loss.value()));
  }
  return mean;
}

/// The sum of the losses of a step's targets, on every rank: without gradients.
template <class Pipeline, class Llama, class Load>
double sum_of_losses(const Pipeline& pipeline, sw::Stages<Llama>& stages, const StepOptions& options,
                     Load load) {
  const sw::LinearCrossEntropyLoss criterion({.reduction = sw::Reduction::sum});
  double sum = 0;
  for (sw::Index i = 0; i < options.micro_batches; ++i) {
    const auto batch = load(i);
    sum += pipeline.forward(
        stages, options.activations, [&](Llama& part) { return part.begin(batch.inputs); },
        [&](Llama& part, const auto& x) {
          return options.packed ? part.middle(x, *batch.documents) : part.middle(x);
        },
        [&](Llama& part, const auto& x) {
          return static_cast<double>(sw::item(part.end(x, batch.targets, criterion)));
        });
  }
  return sum;
}

/// The mean of the results of replicas that train alone.
constexpr StepResult mean_of_replicas(const Job& job, const StepResult& own) {
  const sw::PhaseScope phase(job.recorder(), sw::Phase::optimizer);
  std::array numbers{own.loss, own.norm};
  sw::MeshView(job).all_reduce(numbers.data(), 2, sw::DataType::f64, sw::ReduceOp::sum,
                               1u << Job::AxesOf::index<replica>);
  const double replicas = job.size<replica>();
  return {numbers[0] / replicas, numbers[1] / replicas};
}

/// One step. `load(i)` returns micro-batch i as a `sw::llm::LoadedBatch`: its `inputs`, its `targets`, and how many
/// targets are `counted` in the whole step. Gradients are those of the mean over these.
///
/// `before_update(result)` is called after clipping, on every rank; the optimizer's step follows if it returns
/// true. It may throw; it may return false if it has cleared the gradients.
template <class Pipeline, class Llama, class Optimizer, class Load, class BeforeUpdate = Always>
constexpr StepResult train_step(const Pipeline& pipeline, sw::Stages<Llama>& stages, Optimizer& optimizer,
                                const StepOptions& options, Load load, BeforeUpdate before_update = {}) {
  StepResult result;
  result.loss = run_passes(pipeline, stages, options, load);
  result.norm = pipeline.clip_gradients(stages, options.max_norm);
  if (before_update(result)) optimizer.step(stages);
  return result;
}

}  // namespace tools
