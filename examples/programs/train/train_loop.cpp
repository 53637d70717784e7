// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The training loop.

#include <chrono>
#include <cstdio>
#include <memory>

#include <shardwise/inspect/timeline.hpp>

#include "../common/job_hosts.hpp"
#include "../common/stop_signal.hpp"
#include "../common/watchdog.hpp"
#include "checked_steps.hpp"
#include "checkpoints.hpp"
#include "run.hpp"

namespace tools {

namespace {

/// Prints the state of a run that was stopped. Returns its exit code.
int stopped_run(const Run& run, int signal, std::int64_t step, bool saved) {
  const TrainOptions& options = run.options();
  const bool resumable = saved && !options.save.empty();
  const int code = resumable ? stopped_and_saved : 128 + signal;
  if (!run.prints()) return code;
  std::printf("stopped by %s after step %lld of %lld\n", StopSignal::name_of(signal),
              static_cast<long long>(step), static_cast<long long>(options.steps));
  if (resumable) {
    std::printf("saved in %s: --resume continues from there\n", options.save.c_str());
  } else {
    std::fprintf(stderr, "NOT SAVED: %s\n",
                 options.save.empty() ? "all training is lost, as there was no --save"
                                      : "the last steps are lost, as the last save failed");
  }
  if (const auto& folder = options.export_to; !folder.empty()) {
    std::fprintf(stderr, "NOT EXPORTED: %s %s\n", folder.c_str(),
                 std::filesystem::exists(folder) ? "is as it was before this run" : "was not made");
  }
  if (!options.trace.empty()) std::fprintf(stderr, "no trace: %s was not written\n", options.trace.c_str());
  return code;
}

}  // namespace

int train(const TrainOptions& given) {
  const auto watched = watchdog(given.timeout);
  Run run(given);
  const Job& mesh = run.mesh();
  const TrainOptions& options = run.options();

  run.check();
  sw::EventLog log(sw::clock_seconds);
  sw::Recording recording(mesh, options.trace.empty() ? nullptr : &log);
  const std::unique_ptr<TrainedModel> model = run.make_model();
  if (!options.trace.empty()) model->name_modules(log);
  run.print_job();
  warn_of_torn_groups(mesh);

  std::int64_t step = 0;  // completed steps
  Checkpoints checkpoints(run, step);
  if (checkpoints.wanted()) checkpoints.begin(*model);
  model->join();
  if (const std::int64_t joined = model->steps(step); joined != step) {
    step = joined;
    checkpoints.set_aside_ahead();
  }
  CheckedSteps checked(run, *model);
  run.open_best(checkpoints.resumed());
  const std::int64_t begun = step;
  const StopSignal stop;
  run.begin(step);
  int signal = 0;
  bool saved = true;
  while (step < options.steps && signal == 0) {
    using Clock = std::chrono::steady_clock;
    run.evaluate(*model, step);
    const auto start = Clock::now();
    run.fetch(step);
    const StepResult result = checked.make(step, [&] {
      recording.restart();
      return run.make_step(*model, step);
    });
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    run.tell(step, {.loss = result.loss, .rate = run.rate(step), .norm = result.norm}, seconds);
    step = model->steps(step + 1);
    signal = largest(mesh, stop.asked());
    saved = checkpoints.after_step(signal != 0 || step >= options.steps);
  }
  run.print_waits();
  if (signal != 0) return stopped_run(run, signal, step, saved);
  const auto recorded = recording.plan();
  const PoolBytes pool;
  const bool traced = options.trace.empty() || step == begun || run.write_trace(log);

  run.evaluate_last(*model, step);
  if (!options.export_to.empty()) run.export_to(options.export_to, *model);
  if (step == begun) {
    if (run.prints()) std::printf("nothing left to do: %lld steps were made\n", static_cast<long long>(step));
    return 0;
  }
  return run.compare(recorded, pool) && saved && traced && run.best_exported() ? 0 : 1;
}

}  // namespace tools
