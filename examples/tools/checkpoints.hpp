// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The checkpoints of a training run: the model, the optimizer's state, and the number of steps, from which learning
/// rate, batches and all random numbers follow.

#include <optional>
#include <string>

#include <shardwise/checkpoint/checkpointer.hpp>

#include "run.hpp"

namespace tools {

class Checkpoints {
 public:
  /// `step` is the number of steps that were made. Without a folder, nothing is saved.
  Checkpoints(Run& run, std::int64_t& step) : run_(run), step_(step) {}

  bool wanted() const { return !run_.options().save.empty(); }

  /// Goes on from the last checkpoint, if that is wanted and there is one. Throws `std::runtime_error` if it is of another
  /// run, and if a run that is not resumed would mix its checkpoints with those of another.
  void begin(TrainedModel& model);

  /// Whether the run goes on from a checkpoint.
  bool resumed() const { return resumed_; }

  /// Saves now and then; and before the run ends, when it also waits until all is written. Returns whether nothing is
  /// lost if the run ends here. Throws `std::runtime_error` when `most_failed` saves in a row failed and the run would go on:
  /// it might never save again.
  bool after_step(bool ends);
  static constexpr int most_failed = 3;

 private:
  void resume_from(const std::filesystem::path& last);
  /// As many checkpoints stay as the run before kept, unless --keep says otherwise.
  void keep_as_before(const sw::Json& before);
  std::optional<std::string> save();
  /// The run goes on without a checkpoint that could not be written.
  bool tell(const std::optional<std::string>& problem) const;

  Run& run_;
  std::int64_t& step_;
  std::optional<sw::CheckpointContents> contents_;
  std::optional<sw::Checkpointer> checkpointer_;
  sw::Json notes_;
  bool resumed_ = false;
  int failed_ = 0;  // saves in a row
};

}  // namespace tools
