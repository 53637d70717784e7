// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A training step, for one element type, `STEP_TYPE`, and all plans of a set, `STEP_SET` (step_plans.hpp).

#include "trained_llama.hpp"

#include <shardwise/compiled.hpp>

#include "step_plans.hpp"

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
  if (job.lora_rank > 0) return;  // all that is trained are matrices
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

template <class T, PlanSet Set>
std::unique_ptr<TrainedModel> make_trained_model(const Job& mesh, const StepJob& job,
                                                 const TrainSettings& settings) {
  return with_plan<Set>(job, [&]<class Plan>(std::type_identity<Plan>) -> std::unique_ptr<TrainedModel> {
    return std::make_unique<TrainedLlama<T, Plan>>(mesh, job, settings);
  });
}
template std::unique_ptr<TrainedModel> make_trained_model<STEP_TYPE, PlanSet::STEP_SET>(const Job&,
                                                                                        const StepJob&,
                                                                                        const TrainSettings&);

}  // namespace tools
