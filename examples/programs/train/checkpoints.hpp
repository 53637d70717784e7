// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The checkpoints of a training run: the model, the optimizer's state, and the number of steps, which determines
/// learning rate, batches and all random numbers.

#include <optional>
#include <string>

#include <shardwise/checkpoint/checkpointer.hpp>
#include <shardwise/checkpoint/memory_checkpoints.hpp>

#include "run.hpp"

namespace tools {

class Checkpoints {
 public:
  /// `step` is the number of completed steps. Without a folder, nothing is saved.
  Checkpoints(Run& run, std::int64_t& step) : run_(run), step_(step) {}

  bool wanted() const { return !run_.options().save.empty(); }

  /// Resumes from the last checkpoint, if requested and if there is one; if it is damaged, from the one before, and says
  /// so. Throws `std::runtime_error` if it belongs
  /// to another run, and if a run that is not resumed would mix its checkpoints with those of another.
  void begin(TrainedModel& model);

  /// Whether the run resumed from a checkpoint.
  bool resumed() const { return resumed_; }

  /// Renames checkpoints of more steps than there are now, as this replica has taken the state of others with fewer.
  void set_aside_ahead();

  /// Saves at intervals; and before the run ends, when it also waits for the writes to finish. Returns whether
  /// nothing is lost if the run ends here. Throws `std::runtime_error` after `most_failed` consecutive failed saves
  /// if the run would continue, because it might never save again.
  bool after_step(bool ends);
  static constexpr int most_failed = 3;

 private:
  void resume();
  void resume_from(const std::filesystem::path& last);
  /// Opens the hosts' memory of this run, whose number is in a file of its folder. A run that does not resume has
  /// another number than the one before, so it never finds what a host kept of that.
  void open_memory(bool resumes);
  /// Resumes from the hosts' memory, if it has a later step than `last`, and was made from a checkpoint that is there
  /// still. Returns whether it did.
  bool resume_from_memory(const std::optional<std::filesystem::path>& last);
  /// Throws `std::runtime_error` if a checkpoint is of another run. `from`: where it was.
  void check_run(const std::string& from, const sw::Json& notes) const;
  void print_resumed(const std::string& from, const sw::LoadedCheckpoint& loaded) const;
  /// A failure is reported.
  void save_in_memory();
  /// Keeps as many checkpoints as the previous run, unless --keep is given.
  void keep_as_before(const sw::Json& before);
  std::optional<std::string> save();
  /// Reports a failed checkpoint; the run continues without it.
  bool tell(const std::optional<std::string>& problem) const;

  Run& run_;
  std::int64_t& step_;
  std::optional<sw::CheckpointContents> contents_;
  std::optional<sw::Checkpointer> checkpointer_;
  std::optional<sw::MemoryCheckpoints<2>> memory_;
  sw::Json notes_;
  std::int64_t saving_ = -1;      ///< the step of the last save that was begun
  std::int64_t saved_last_ = -1;  ///< the step of the last checkpoint that is known to be complete
  bool resumed_ = false;
  int failed_ = 0;  // consecutive saves
};

}  // namespace tools
