// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A training run as a file of JSON lines: what is run, then a line per step. plot_log.py draws it.
///
/// ```
/// TrainingLog log("run/log.jsonl", {{"mesh", {{"dp", 2}, {"tp", 4}}}, {"rate", 3e-4}}, first_step);
/// log.add({.step = step, .loss = loss, .rate = rate, .gradient_norm = norm, .tokens = 8192, .seconds = 0.5});
/// ```
///
///     {"run":{"mesh":{"dp":2,"tp":4},"rate":0.0003},"first_step":0}
///     {"step":0,"loss":10.4,"rate":1.5e-6,"gradient_norm":7.1,"tokens":8192,"tokens_per_second":16384.0,"seconds":0.5}

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include <shardwise/io/file.hpp>

namespace tools {

/// A step's line. JSON has no numbers that are not finite: they become the strings "nan", "inf" and "-inf".
struct TrainingStep {
  std::int64_t step = 0;
  double loss = 0, rate = 0, gradient_norm = 0;
  std::int64_t tokens = 0;                   ///< that this step learned from, of all ranks together
  double seconds = 0;                        ///< that this step took
  std::optional<double> held_out_loss = {};  ///< of the weights before this step
};

/// Every rank has one, and rank 0 of the job writes. Each line goes to the file at once: a run that is killed leaves whole
/// lines, but for the last it may be, and where the disk is full the part of a line that fitted is taken back. (It is not
/// flushed to the device: a crash of the machine may take the last lines along.)
class TrainingLog {
  using File = shardwise::detail::File;

 public:
  using Json = nlohmann::ordered_json;

  /// Begins a file with the line {"run": …, "first_step": …}, where `run` is whatever describes the run. If the file
  /// is there, the lines of steps before `first_step` stay, with the runs that they are of, and those of later steps
  /// are dropped: a run that is resumed from a checkpoint leaves a log with each step once, and one that begins at
  /// step 0 replaces its log. A last line that a crash tore is dropped too. The old file stays until the new one is
  /// whole.
  ///
  /// Throws `std::runtime_error`, naming the file, on rank 0 alone (which ends the job, under `shardwise::run`): if
  /// the file cannot be read or written, or is there and is no training log, or another run's that still writes it; then
  /// it stays as it was.
  TrainingLog(std::filesystem::path path, const Json& run, std::int64_t first_step = 0);

  /// Appends a line. Throws `std::invalid_argument`, on every rank, unless steps ascend from `first_step` on, and
  /// `std::runtime_error`, naming the file, on rank 0 if it cannot be written.
  void add(const TrainingStep& step);

 private:
  [[noreturn]] void fail(const std::string& what, int code) const;
  /// For this run alone, as long as it lives.
  File locked() const;
  /// The lines of the file that stay, each ended.
  std::string lines_before(std::int64_t first_step) const;
  /// One call writes a line, as a rule; what it leaves over is tried again, and gives the reason if there is one.
  void append(const std::string& text) const;

  std::filesystem::path path_;
  std::int64_t next_;
  std::optional<File> file_;  // on rank 0
};

}  // namespace tools
