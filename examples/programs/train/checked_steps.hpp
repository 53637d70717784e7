// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Steps that are made twice, for --repeat-every, and those whose fingerprints are written, for --fingerprints.

#include <cstdio>
#include <optional>
#include <stdexcept>

#include "run.hpp"
#include "step_fingerprints.hpp"

namespace tools {

class CheckedSteps {
 public:
  CheckedSteps(Run& run, TrainedModel& model) : run_(run) {
    const TrainOptions& options = run.options();
    if (options.repeat_every == 0 && options.fingerprints.empty()) return;
    contents_.emplace(run.mesh(), model);
    if (options.fingerprints.empty()) return;
    sw::throw_on_all_ranks(sw::world(), "--fingerprints", [&] {
      if (!run.prints()) return;
      file_.emplace(options.fingerprints, O_RDWR | O_CREAT);
      const sw::Index size = file_->size();
      char last = '\n';
      if (size > 0) file_->read(&last, 1, size - 1);
      if (last != '\n') file_->write("\n", size);  // after the line of a run that was killed
    });
  }

  /// Returns the result of make(), which makes a step. If bits differ, it warns; throws `std::runtime_error` if copies on
  /// several ranks differ before the step, or if its bits never repeat.
  template <class Make>
  StepResult make(std::int64_t step, Make make) {
    const TrainOptions& options = run_.options();
    const bool repeats = options.repeat_every > 0 && step % options.repeat_every == 0;
    const bool writes = !options.fingerprints.empty() && step % options.fingerprint_every == 0;
    if (!repeats && !writes) return make();
    StepResult result;
    RankFingerprints found;
    const auto once = [&] { result = contents_->make(make); };
    const auto observed = [&] {
      writes ? static_cast<void>(found = contents_->fingerprints_of(once)) : once();
    };
    repeats ? repeat(step, observed) : observed();
    if (writes) write(lines_of_all(step, found));
    return result;
  }

 private:
  template <class Once>
  void repeat(std::int64_t step, Once once) {
    sw::compare_copies(contents_->contents());
    const auto found = sw::repeat_step(contents_->contents(), once);
    if (found && !found->repaired)
      throw std::runtime_error("step " + std::to_string(step) + ": " + found->text);
    if (found && run_.prints())
      std::fprintf(stderr, "WARNING: step %lld: %s\n", static_cast<long long>(step), found->text.c_str());
  }
  /// Training continues without them.
  void write(const std::string& lines) {
    try {
      if (file_) file_->write(lines, file_->size());
    } catch (const std::runtime_error& error) {
      std::fprintf(stderr, "the fingerprints end here: %s\n", error.what());
      file_.reset();
    }
  }

  Run& run_;
  std::optional<StepContents> contents_;
  std::optional<sw::File> file_;
};

}  // namespace tools
