// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A training run as a file of JSON lines: a description of the run, then one line per step. shardwise-plot draws it.
/// Or as CSV: a line of names, then one per step. Or as a folder for TensorBoard.
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

/// A step's line. JSON has no infinities or NaN: they become the strings "nan", "inf" and "-inf".
struct TrainingStep {
  std::int64_t step = 0;
  double loss = 0, rate = 0, gradient_norm = 0;
  std::int64_t tokens = 0;                   ///< trained on in this step, over all ranks
  double seconds = 0;                        ///< duration of this step
  std::optional<double> waited = {};         ///< seconds of these for tokens; not in CSV
  std::optional<double> held_out_loss = {};  ///< with the weights before this step
};

/// Constructed on every rank; rank 0 of the job writes. A path that ends in ".csv" gives CSV, a folder or a path that
/// ends in "/" a new event file in this folder, all others JSON lines. Each line is written at once: a killed run
/// leaves complete lines, except possibly the last, and if the disk is full a partial line is removed. (Lines are not
/// flushed to the device: a crash of the machine may lose the last ones.)
class TrainingLog {
  using File = shardwise::File;

 public:
  using Json = nlohmann::ordered_json;

  /// Begins a file with the line {"run": …, "first_step": …}, where `run` describes the run. If the file exists, it
  /// keeps the lines of steps before `first_step`, with the descriptions of their runs, and drops later ones: a
  /// resumed run leaves a log with each step once, and a run that begins at step 0 replaces its log. An incomplete
  /// last line is dropped too. The old file stays until the new one is complete. CSV is treated alike, without a
  /// description. An event file says that later steps of the folder's other files are void, and they stay as they are.
  ///
  /// Throws `std::runtime_error`, with the file, only on rank 0 (which ends the job, under `shardwise::run`): if the
  /// file cannot be read or written, is not a training log, or is being written by another run; then it is unchanged.
  TrainingLog(std::filesystem::path path, const Json& run, std::int64_t first_step = 0);

  /// Appends a line. Throws `std::invalid_argument`, on every rank, unless steps ascend from `first_step` on, and
  /// `std::runtime_error`, with the file, on rank 0 if it cannot be written.
  void add(const TrainingStep& step);
  /// Appends a line with only the held-out loss, after `step` steps, under the same conditions.
  void add_evaluation(std::int64_t step, double held_out_loss);

 private:
  [[noreturn]] void fail(const std::string& what, int code) const;
  /// Locks the file for this run, for the lifetime of the object.
  File locked(int flags) const;
  /// Opens a new event file in the folder `path_`.
  void begin_events();
  /// The lines of the file that are kept, each with its line end.
  std::string lines_before(std::int64_t first_step) const;
  /// Appends the values of a step.
  void add_values(std::int64_t step, const Json& values);
  /// Usually one call writes a line; if it writes less, the rest is retried, which reports the error if there is one.
  void append(const std::string& text) const;

  enum class Format { json_lines, csv, events };
  static Format format_of(const std::filesystem::path& path);

  std::filesystem::path path_;
  Format format_;
  std::int64_t next_;
  std::optional<File> file_, folder_;  // on rank 0; the folder of an event file
};

}  // namespace tools
