// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// One step of training a model of tokens: what `train` runs on a real mesh, and `plan` counts on a dry one of any size.

#include <shardwise/autograd/tape.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/train/clip.hpp>

#include "step_job.hpp"

namespace tools {

namespace sw = shardwise;

struct StepOptions {
  sw::Index micro_batches = 1;  ///< parts of the batch that are run one after another
  double max_norm = 1;          ///< that gradients are clipped to
  sw::ReduceOptions reduction = {};
};

constexpr StepOptions step_options_of(const StepJob& job, double max_norm) {
  return {.micro_batches = job.micro_batches,
          .max_norm = max_norm,
          .reduction = {.bucket_bytes = job.bucket_bytes, .in_background = job.in_background}};
}

/// For a model before its first step.
template <class Model>
constexpr void set_communication(Model& model, const StepJob& job) {
  if (const auto& types = job.communicate_as) sw::set_communication(model, types->front(), types->back());
}

/// `train_step` goes on after every gradient.
struct Always {
  constexpr bool operator()(const StepResult&) const { return true; }
};

/// One step. `load(i)` gives micro-batch i as a `sw::LoadedBatch`: its `inputs`, its `targets`, and how many targets
/// are `counted` in the whole step. Gradients add up to those of the mean over these.
///
/// `before_update(result)` is called when gradients are clipped, on every rank; the optimizer goes on if it says yes.
/// It may throw; and may say no, if it has cleared the gradients.
template <class Model, class Optimizer, class Load, class BeforeUpdate = Always>
constexpr StepResult train_step(Model& model, Optimizer& optimizer, const StepOptions& options, Load load,
                                BeforeUpdate before_update = {}) {
  const sw::LinearCrossEntropyLoss sum_of_losses({.reduction = sw::Reduction::sum});
  sw::ReduceOptions reduction = options.reduction;
  StepResult result;
  for (sw::Index i = 0; i < options.micro_batches; ++i) {
    const auto batch = load(i);
    sw::Tape tape;
    auto sum = model(tape.constant(batch.inputs), batch.targets, sum_of_losses);
    auto loss = sw::scale(sum, 1 / static_cast<double>(batch.counted));
    reduction.last = i + 1 == options.micro_batches;
    sw::backward_and_reduce(loss, model, reduction);
    if constexpr (!sw::tensor_of<decltype(loss)>::MeshOf::dry) {
      result.loss += static_cast<double>(sw::item(loss.value()));
    }
  }
  result.norm = sw::clip_gradients(model, options.max_norm, 2, reduction);
  if (before_update(result)) optimizer.step(model);
  return result;
}

}  // namespace tools
