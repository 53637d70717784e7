// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The training loop, for one element type and one level of ZeRO: `STEP_TYPE` and `STEP_ZERO`.

#include <chrono>
#include <cstdio>

#include <shardwise/models/llama/files.hpp>
#include <shardwise/module/parameters.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/check_finite.hpp>

#include "checkpoints.hpp"
#include "run.hpp"
#include "stop_signal.hpp"
#include "train_step.hpp"

namespace tools {

namespace {

template <class T, class Plan>
bool train_with(const TrainOptions& given) {
  Run run(given);
  const Mesh& mesh = run.mesh();
  const TrainOptions& options = run.options();
  const StepOptions step_options = step_options_of(run.job(), options.max_norm);

  sw::Recording recording(mesh);
  sw::Llama<Mesh, Plan, T> model(mesh, run.job().model);
  model.recompute_layers = run.job().recompute;
  sw::initialize(model, options.seed);
  sw::AdamW adamw({.rate = options.rate, .weight_decay = options.weight_decay}, step_options.reduction);
  adamw.add_group([](const sw::ParameterInfo& p) { return p.rank == 1; },  // gains of norms do not decay
                  [](sw::AdamWUpdate& update) { update.weight_decay = 0; });
  const sw::Index parameters = sw::parameter_count(model);
  run.print_job(parameters);

  std::int64_t step = 0;  // steps that were made
  Checkpoints checkpoints(run, step);
  if (checkpoints.wanted()) checkpoints.begin(model, adamw);
  const std::int64_t begun = step;
  const StopSignal stop;
  run.begin(step, parameters);
  bool stopped = false, saved = true;
  while (step < options.steps && !stopped) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    const double rate = run.rate(step);
    adamw.set_rate(rate);
    recording.restart();
    const StepResult result = train_step(
        model, adamw, step_options, [&](sw::Index micro) { return run.load(step, micro); },
        [&](const StepResult& found) {
          sw::check_finite(model, step, found.loss, found.norm);
          return true;
        });
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    run.tell(step, {.loss = result.loss, .rate = rate, .norm = result.norm}, seconds);
    ++step;
    stopped = !sw::world().agree(!stop.asked());
    saved = checkpoints.after_step(stopped || step == options.steps);
  }
  if (stopped && run.prints())
    std::printf("stopped by a signal after step %lld\n", static_cast<long long>(step));
  if (stopped) return saved;
  const auto recorded = recording.plan();

  if (!options.export_to.empty()) {
    run.complete_export(sw::save_llama(model, options.export_to, {}, run.special_tokens()));
  }
  if (step == begun) {
    if (run.prints()) std::printf("no step is left to make: %lld were made\n", static_cast<long long>(step));
    return true;
  }
  return run.compare(recorded) && saved;
}

}  // namespace

template <class T, int ZeroLevel>
bool train(const TrainOptions& options) {
  return options.job.sequence_parallel ? train_with<T, TrainPlan<ZeroLevel, true>>(options)
                                       : train_with<T, TrainPlan<ZeroLevel, false>>(options);
}
template bool train<STEP_TYPE, STEP_ZERO>(const TrainOptions&);

}  // namespace tools
