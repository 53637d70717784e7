// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "training_log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <shardwise/comm/communicator.hpp>

#include "event_file.hpp"

namespace tools {

namespace {

using Json = TrainingLog::Json;

Json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

/// Replaces invalid UTF-8, which file names may contain, by U+FFFD.
std::string line(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

constexpr std::array names{"loss",    "rate",         "gradient_norm", "tokens", "tokens_per_second",
                           "seconds", "held_out_loss"};

std::string csv_line(std::int64_t step, const Json& values) {
  std::string text = std::to_string(step);
  for (const char* name : names) {
    text += ",";
    if (const auto value = values.find(name); value != values.end())
      text += value->is_string() ? value->get<std::string>() : value->dump();
  }
  return text + "\n";
}

std::string csv_head() {
  std::string text = "step";
  for (const char* name : names) text += "," + std::string(name);
  return text + "\n";
}

/// The step of a line; nothing if it is not a line of a log.
std::optional<std::int64_t> step_of_object(const std::string& text) {
  const Json object = Json::parse(text, nullptr, false);
  const auto step = object.find(object.contains("run") ? "first_step" : "step");
  if (step == object.end() || !step->is_number_integer()) return std::nullopt;
  return step->get<std::int64_t>();
}
std::optional<std::int64_t> step_of_row(const std::string& text) {
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || std::count(text.begin(), text.end(), ',') != std::ssize(names) || *end != ',')
    return std::nullopt;
  return step;
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

TrainingLog::Format TrainingLog::format_of(const std::filesystem::path& path) {
  std::error_code ignored;  // rank 0 reports it when it opens the file
  if (!path.has_filename() || std::filesystem::is_directory(path, ignored)) return Format::events;
  return path.extension() == ".csv" ? Format::csv : Format::json_lines;
}

TrainingLog::TrainingLog(std::filesystem::path path, const Json& run, std::int64_t first_step)
    : path_(std::move(path)), format_(format_of(path_)), next_(first_step) {
  if (shardwise::world().rank() != 0) return;
  if (format_ == Format::events) {
    begin_events();
    return;
  }
  std::optional<File> before;  // stays locked until the new one is
  if (std::filesystem::exists(path_)) {
    path_ = std::filesystem::canonical(path_);  // replaces the target of a symbolic link
    if (!std::filesystem::is_regular_file(path_))
      throw std::runtime_error(path_.string() + ": not a regular file");
    before.emplace(locked(O_WRONLY | O_APPEND));
  }
  const std::string kept = lines_before(first_step);
  shardwise::write_file_atomically(path_, format_ == Format::csv
                                              ? csv_head() + kept
                                              : kept + line({{"run", run}, {"first_step", first_step}}));
  file_.emplace(locked(O_WRONLY | O_APPEND));
}

void TrainingLog::begin_events() {
  std::error_code error;
  std::filesystem::create_directories(path_, error);
  if (error) throw std::runtime_error(path_.string() + ": cannot be made: " + error.message());
  folder_.emplace(locked(O_RDONLY | O_DIRECTORY));
  const double now = seconds_since_1970();
  char name[80];
  std::snprintf(name, sizeof name, "events.out.tfevents.%017.6f.shardwise",
                now);  // TensorBoard reads them in order
  path_ /= name;
  file_.emplace(path_, O_WRONLY | O_APPEND | O_CREAT | O_EXCL);
  append(begun_events(now, next_));
}

void TrainingLog::add(const TrainingStep& step) {
  Json values{{"loss", number(step.loss)},
              {"rate", number(step.rate)},
              {"gradient_norm", number(step.gradient_norm)},
              {"tokens", step.tokens},
              {"tokens_per_second", number(static_cast<double>(step.tokens) / step.seconds)},
              {"seconds", number(step.seconds)}};
  if (step.waited) values["waited"] = number(*step.waited);
  if (step.held_out_loss) values["held_out_loss"] = number(*step.held_out_loss);
  add_values(step.step, std::move(values));
}

void TrainingLog::add_evaluation(std::int64_t step, double held_out_loss) {
  add_values(step, {{"held_out_loss", number(held_out_loss)}});
}

void TrainingLog::add_values(std::int64_t step, const Json& values) {
  if (step < next_) {
    throw std::invalid_argument(path_.string() + ": step " + std::to_string(step) + " is logged, but step " +
                                std::to_string(next_) + " or a later one was expected");
  }
  next_ = step + 1;
  if (!file_) return;
  if (format_ == Format::csv) return append(csv_line(step, values));
  if (format_ == Format::json_lines) {
    Json all{{"step", step}};
    all.update(values);
    return append(line(all));
  }
  std::string events;
  const double now = seconds_since_1970();
  for (const auto& [name, value] : values.items()) {
    // JSON has these values as strings.
    const float scalar = value.is_string() ? std::strtof(value.get_ref<const std::string&>().c_str(), nullptr)
                                           : value.get<float>();
    events += scalar_event(now, step, name, scalar);
  }
  append(events);
}

void TrainingLog::fail(const std::string& what, int code) const {
  throw std::runtime_error(path_.string() + ": " + what + ": " + std::generic_category().message(code));
}

shardwise::File TrainingLog::locked(int flags) const {
  File file(path_, flags);
  if (!file.lock() && errno == EWOULDBLOCK)
    throw std::runtime_error(path_.string() + ": another run writes it");
  return file;
}

std::string TrainingLog::lines_before(std::int64_t first_step) const {
  std::string kept, text;
  std::ifstream file(path_, std::ios::binary);
  if (!file && std::filesystem::exists(path_)) fail("cannot be opened", errno);
  if (format_ == Format::csv && file) {
    if (std::getline(file, text) && text + "\n" != csv_head())
      throw std::runtime_error(path_.string() + ":1: not the first line of a training log");
  }
  for (std::int64_t number = format_ == Format::csv ? 2 : 1; std::getline(file, text); ++number) {
    const std::optional<std::int64_t> step =
        format_ == Format::csv ? step_of_row(text) : step_of_object(text);
    if (!step || (format_ == Format::csv && file.eof())) {
      if (file.eof() && number > 1) break;  // incomplete
      throw std::runtime_error(path_.string() + ":" + std::to_string(number) +
                               ": not a line of a training log");
    }
    if (*step < first_step) kept += text + "\n";
  }
  if (file.bad()) fail("cannot be read", errno);
  return kept;
}

void TrainingLog::append(const std::string& text) const {
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

}  // namespace tools
