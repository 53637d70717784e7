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

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include <shardwise/io/file.hpp>
#include <shardwise/mesh/communicator.hpp>

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
  TrainingLog(std::filesystem::path path, const Json& run, std::int64_t first_step = 0)
      : path_(std::move(path)), next_(first_step) {
    if (shardwise::world().rank() != 0) return;
    std::optional<File> before;  // held until the new one is
    if (std::filesystem::exists(path_)) {
      path_ = std::filesystem::canonical(path_);  // of a symbolic link its target is replaced
      if (!std::filesystem::is_regular_file(path_)) throw std::runtime_error(name() + ": not a regular file");
      before.emplace(locked());
    }
    shardwise::write_file_atomically(
        path_, lines_before(first_step) + line({{"run", run}, {"first_step", first_step}}));
    file_.emplace(locked());
  }

  /// Appends a line. Throws `std::invalid_argument`, on every rank, unless steps ascend from `first_step` on, and
  /// `std::runtime_error`, naming the file, on rank 0 if it cannot be written.
  void add(const TrainingStep& step) {
    if (step.step < next_) {
      throw std::invalid_argument(path_.string() + ": step " + std::to_string(step.step) +
                                  " was to be logged, where step " + std::to_string(next_) +
                                  " or a later one is expected");
    }
    next_ = step.step + 1;
    if (!file_) return;
    Json values{{"step", step.step},
                {"loss", number(step.loss)},
                {"rate", number(step.rate)},
                {"gradient_norm", number(step.gradient_norm)},
                {"tokens", step.tokens},
                {"tokens_per_second", number(static_cast<double>(step.tokens) / step.seconds)},
                {"seconds", number(step.seconds)}};
    if (step.held_out_loss) values["held_out_loss"] = number(*step.held_out_loss);
    append(line(values));
  }

 private:
  std::string name() const { return path_.string(); }

  [[noreturn]] void fail(const std::string& what, int code = errno) const {
    throw std::runtime_error(name() + ": " + what + ": " + std::generic_category().message(code));
  }

  /// For this run alone, as long as it lives.
  File locked() const {
    File file(path_, O_WRONLY | O_APPEND);
    if (!file.lock() && errno == EWOULDBLOCK) throw std::runtime_error(name() + ": another run writes it");
    return file;
  }

  static Json number(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    return value;
  }

  /// What is no UTF-8 (names of files may be such) becomes U+FFFD.
  static std::string line(const Json& object) {
    return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }

  /// The lines of the file that stay, each ended.
  std::string lines_before(std::int64_t first_step) const {
    std::string kept, text;
    std::ifstream file(path_, std::ios::binary);
    if (!file && std::filesystem::exists(path_)) fail("cannot be opened");
    for (std::int64_t number = 1; std::getline(file, text); ++number) {
      const Json object = Json::parse(text, nullptr, false);
      const char* key = object.contains("run") ? "first_step" : "step";
      const auto step = object.find(key);
      if (step == object.end() || !step->is_number_integer()) {
        if (file.eof() && number > 1) break;  // torn: it has no end
        throw std::runtime_error(name() + ":" + std::to_string(number) + ": not a line of a training log");
      }
      if (step->get<std::int64_t>() < first_step) kept += text + "\n";
    }
    if (file.bad()) fail("cannot be read");
    return kept;
  }

  /// One call writes a line, as a rule; what it leaves over is tried again, and gives the reason if there is one.
  void append(const std::string& text) const {
    const ::off_t end = ::lseek(file_->descriptor(), 0, SEEK_END);
    for (std::size_t done = 0; done < text.size();) {
      const ::ssize_t now = ::write(file_->descriptor(), text.data() + done, text.size() - done);
      if (now < 0 && errno == EINTR) continue;
      if (now < 0) {
        const int code = errno;
        if (end >= 0 && ::ftruncate(file_->descriptor(), end) != 0)
          fail("cannot be written, nor the torn line removed", code);
        fail("cannot be written", code);
      }
      done += static_cast<std::size_t>(now);
    }
  }

  std::filesystem::path path_;
  std::int64_t next_;
  std::optional<File> file_;  // on rank 0
};

}  // namespace tools
