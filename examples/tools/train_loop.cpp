// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The training loop.

#include <chrono>
#include <cstdio>
#include <memory>

#include <shardwise/inspect/timeline.hpp>

#include "checkpoints.hpp"
#include "job_hosts.hpp"
#include "run.hpp"
#include "stop_signal.hpp"
#include "watchdog.hpp"

namespace tools {

bool train(const TrainOptions& given) {
  Run run(given);
  const Job& mesh = run.mesh();
  const TrainOptions& options = run.options();

  const auto watched = watchdog(options.timeout);  // before, one rank may read texts alone
  run.check();
  sw::EventLog log(sw::clock_seconds);
  sw::Recording recording(mesh, options.trace.empty() ? nullptr : &log);
  const TrainSettings settings{.rate = options.rate,
                               .weight_decay = options.weight_decay,
                               .max_norm = options.max_norm,
                               .betas = options.betas,
                               .epsilon = options.epsilon,
                               .seed = options.seed};
  const std::unique_ptr<TrainedModel> model = make_trained_model(mesh, run.job(), settings);
  if (!options.from.empty()) model->load_from(options.from);
  run.print_job();

  std::int64_t step = 0;  // steps that were made
  Checkpoints checkpoints(run, step);
  if (checkpoints.wanted()) checkpoints.begin(*model);
  const std::int64_t begun = step;
  const StopSignal stop;
  run.begin(step);
  bool stopped = false, saved = true;
  while (step < options.steps && !stopped) {
    using Clock = std::chrono::steady_clock;
    run.evaluate(*model, step);
    const auto start = Clock::now();
    const double rate = run.rate(step);
    recording.restart();
    const StepResult result = model->make_step(
        step, rate, [&](const Mesh& stage, sw::Index micro) { return run.data().load(stage, step, micro); });
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    run.tell(step, {.loss = result.loss, .rate = rate, .norm = result.norm}, seconds);
    ++step;
    stopped = !agree(mesh, !stop.asked());
    saved = checkpoints.after_step(stopped || step == options.steps);
  }
  if (stopped && run.prints())
    std::printf("stopped by a signal after step %lld\n", static_cast<long long>(step));
  if (stopped) return saved;
  const auto recorded = recording.plan();
  const bool traced = options.trace.empty() || step == begun || run.write_trace(log);
  warn_of_torn_groups(mesh);

  run.evaluate(*model, step);
  if (!options.export_to.empty()) run.export_to(options.export_to, *model);
  if (step == begun) {
    if (run.prints()) std::printf("no step is left to make: %lld were made\n", static_cast<long long>(step));
    return true;
  }
  return run.compare(recorded) && saved && traced;
}

}  // namespace tools
