// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A training step, for one element type, `STEP_TYPE`, and all levels of ZeRO.

#include "trained_llama.hpp"

#include <shardwise/module/parameters.hpp>
#include <shardwise/train/check_finite.hpp>

#include "train_step.hpp"

namespace tools {

template <class T, class Plan>
TrainedLlama<T, Plan>::TrainedLlama(const Mesh& mesh, const StepJob& job, const TrainSettings& settings)
    : job_(job),
      max_norm_(settings.max_norm),
      model_(mesh, job.model),
      adamw_({.rate = settings.rate, .weight_decay = settings.weight_decay},
             step_options_of(job, max_norm_).reduction) {
  model_.recompute_layers = job.recompute;
  set_communication(model_, job);
  sw::initialize(model_, settings.seed);
  adamw_.add_group([](const sw::ParameterInfo& p) { return p.rank == 1; },  // gains of norms do not decay
                   [](sw::AdamWUpdate& update) { update.weight_decay = 0; });
}

template <class T, class Plan>
sw::Index TrainedLlama<T, Plan>::parameters() {
  return sw::parameter_count(model_);
}

template <class T, class Plan>
StepResult TrainedLlama<T, Plan>::make_step(std::int64_t step, double rate, const Load& load) {
  adamw_.set_rate(rate);
  return train_step(model_, adamw_, step_options_of(job_, max_norm_), load, [&](const StepResult& found) {
    sw::check_finite(model_, step, found.loss, found.norm);
    return true;
  });
}

namespace {

template <class T, int ZeroLevel>
std::unique_ptr<TrainedModel> make(const Mesh& mesh, const StepJob& job, const TrainSettings& settings) {
  if (job.sequence_parallel) {
    return std::make_unique<TrainedLlama<T, TrainPlan<ZeroLevel, true>>>(mesh, job, settings);
  }
  return std::make_unique<TrainedLlama<T, TrainPlan<ZeroLevel, false>>>(mesh, job, settings);
}

}  // namespace

template <class T>
std::unique_ptr<TrainedModel> make_trained_model(const Mesh& mesh, const StepJob& job,
                                                 const TrainSettings& settings) {
  constexpr decltype(&make<T, 0>) at_level[] = {make<T, 0>, make<T, 1>, make<T, 2>, make<T, 3>};
  return at_level[job.zero_level](mesh, job, settings);
}
template std::unique_ptr<TrainedModel> make_trained_model<STEP_TYPE>(const Mesh&, const StepJob&,
                                                                     const TrainSettings&);

}  // namespace tools
