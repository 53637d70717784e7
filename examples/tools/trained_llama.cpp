// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A training step, for one element type, `STEP_TYPE`, and all levels of ZeRO.

#include "trained_llama.hpp"

namespace tools {

template <class T, class Plan>
TrainedLlama<T, Plan>::TrainedLlama(const Job& mesh, const StepJob& job, const TrainSettings& settings)
    : mesh_(mesh),
      options_(step_options_of(job, settings.max_norm)),
      pipeline_(mesh, schedule_of(job)),
      stages_(make_stages<sw::Llama<Mesh, Plan, T>>(pipeline_, job)),
      adamw_({.rate = settings.rate,
              .beta1 = settings.betas[0],
              .beta2 = settings.betas[1],
              .epsilon = settings.epsilon,
              .weight_decay = settings.weight_decay},
             options_.reduction) {
  sw::initialize(stages_, settings.seed);
  adamw_.add_group([](const sw::ParameterInfo& p) { return p.rank == 1; },  // gains of norms do not decay
                   [](sw::AdamWUpdate& update) { update.weight_decay = 0; });
}

template <class T, class Plan>
StepResult TrainedLlama<T, Plan>::make_step(std::int64_t step, double rate, const Load& load) {
  adamw_.set_rate(rate);
  return train_step(
      pipeline_, stages_, adamw_, options_, [&](sw::Index micro) { return load(pipeline_.mesh(), micro); },
      [&](const StepResult& found) {
        pipeline_.check_finite(stages_, step, found.loss, found.norm);
        return true;
      });
}

template <class T, class Plan>
double TrainedLlama<T, Plan>::evaluate(const Load& load) {
  return sum_of_losses(pipeline_, stages_, options_,
                       [&](sw::Index micro) { return load(pipeline_.mesh(), micro); });
}

namespace {

template <class T, int ZeroLevel>
std::unique_ptr<TrainedModel> make(const Job& mesh, const StepJob& job, const TrainSettings& settings) {
  if (job.sequence_parallel) {
    return std::make_unique<TrainedLlama<T, TrainPlan<ZeroLevel, true>>>(mesh, job, settings);
  }
  return std::make_unique<TrainedLlama<T, TrainPlan<ZeroLevel, false>>>(mesh, job, settings);
}

}  // namespace

template <class T>
std::unique_ptr<TrainedModel> make_trained_model(const Job& mesh, const StepJob& job,
                                                 const TrainSettings& settings) {
  constexpr decltype(&make<T, 0>) at_level[] = {make<T, 0>, make<T, 1>, make<T, 2>, make<T, 3>};
  return at_level[job.zero_level](mesh, job, settings);
}
template std::unique_ptr<TrainedModel> make_trained_model<STEP_TYPE>(const Job&, const StepJob&,
                                                                     const TrainSettings&);

}  // namespace tools
