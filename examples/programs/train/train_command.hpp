// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The command line of a training run, for `train`, and for `replay`.

#include "../common/command_line.hpp"
#include "../common/job_options.hpp"
#include "train_options.hpp"

namespace tools {

class TrainCommand {
 public:
  /// Adds the options to those of `app`.
  explicit TrainCommand(CommandLine& app);
  TrainCommand& operator=(TrainCommand&&) = delete;

  /// The ranks of the mesh as given, with one for `--dp` if that is not given.
  int ranks() const;
  /// Whether `--plan best` chooses the mesh.
  bool searches() const { return !plan_.empty(); }
  bool replicas_are_jobs() const { return !options_.group.quorum.empty(); }
  const std::filesystem::path& fingerprints() const { return options_.fingerprints; }
  /// The options, complete and checked. Throws `std::invalid_argument` and `std::runtime_error`. Collective.
  TrainOptions options() const;

 private:
  CommandLine& app_;
  TrainOptions options_;
  JobOptions job_{.batch = 32};
  std::string decay_ = sw::name_of(options_.decay), plan_;
  std::filesystem::path speeds_;
};

}  // namespace tools
