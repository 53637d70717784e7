// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The folder of `--export-best`. Next to the model it has `shardwise-best.json` with the loss of that model and
/// the settings of its run. A resumed run reads it, so that only a better model replaces the existing one:
///
///     {"held_out_loss":2.4459,"run":{"seed":1,…},"step":90}
///
/// While a model is being replaced, the file also contains the new loss and identifies the old weights: if the run
/// is killed then, the next run can tell which of the two models is there.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>

#include <shardwise/io/file.hpp>
#include <shardwise/io/json.hpp>

namespace tools {

namespace sw = shardwise;

/// All members except `improved_by` are collective over the whole job; rank 0 reads and writes.
class BestExport {
 public:
  /// When a run may continue with an existing model in the folder.
  struct Allowed {
    bool resume = false;  ///< it may, if the model is its own
    bool save = false;    ///< --save was given, which --resume needs
    /// Receives the settings of the run that wrote it; returns how this run differs, or nothing.
    std::function<std::string(const sw::Json& before)> difference{};
  };

  /// Reads the folder's record, and locks the folder, if it exists. `run`: the settings of this run. Throws
  /// `std::runtime_error`, on all ranks, if the folder has a model of another run, or one without a record.
  void open(const std::filesystem::path& folder, const sw::Json& run, const Allowed& allowed);

  /// Whether a model with this loss is better than the existing one. If the export of the latter was interrupted,
  /// the same model counts as better, also on another mesh, where its loss differs by rounding.
  bool improved_by(double loss) const { return loss < limit_; }
  /// Calls `write`, which exports a model with this loss after `step` steps, and records both. If that fails on all
  /// ranks, such as on a full disk, it prints the error and returns false. Throws `std::runtime_error` if another run
  /// exports to the folder.
  bool replace(double loss, std::int64_t step, const std::function<void()>& write);

 private:
  void lock();
  void write_record() const;

  std::filesystem::path folder_;
  sw::Json record_;
  double limit_ = std::numeric_limits<double>::infinity();
  std::optional<sw::File> lock_;  // of the folder, on rank 0
};

}  // namespace tools
