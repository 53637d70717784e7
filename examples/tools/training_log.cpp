// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "training_log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <shardwise/comm/communicator.hpp>

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

}  // namespace

TrainingLog::TrainingLog(std::filesystem::path path, const Json& run, std::int64_t first_step)
    : path_(std::move(path)), next_(first_step) {
  if (shardwise::world().rank() != 0) return;
  std::optional<File> before;  // stays locked until the new one is
  if (std::filesystem::exists(path_)) {
    path_ = std::filesystem::canonical(path_);  // replaces the target of a symbolic link
    if (!std::filesystem::is_regular_file(path_))
      throw std::runtime_error(path_.string() + ": not a regular file");
    before.emplace(locked());
  }
  shardwise::write_file_atomically(
      path_, lines_before(first_step) + line({{"run", run}, {"first_step", first_step}}));
  file_.emplace(locked());
}

void TrainingLog::add(const TrainingStep& step) {
  if (step.step < next_) {
    throw std::invalid_argument(path_.string() + ": step " + std::to_string(step.step) +
                                " is logged, but step " + std::to_string(next_) +
                                " or a later one was expected");
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

void TrainingLog::fail(const std::string& what, int code) const {
  throw std::runtime_error(path_.string() + ": " + what + ": " + std::generic_category().message(code));
}

shardwise::detail::File TrainingLog::locked() const {
  File file(path_, O_WRONLY | O_APPEND);
  if (!file.lock() && errno == EWOULDBLOCK)
    throw std::runtime_error(path_.string() + ": another run writes it");
  return file;
}

std::string TrainingLog::lines_before(std::int64_t first_step) const {
  std::string kept, text;
  std::ifstream file(path_, std::ios::binary);
  if (!file && std::filesystem::exists(path_)) fail("cannot be opened", errno);
  for (std::int64_t number = 1; std::getline(file, text); ++number) {
    const Json object = Json::parse(text, nullptr, false);
    const char* key = object.contains("run") ? "first_step" : "step";
    const auto step = object.find(key);
    if (step == object.end() || !step->is_number_integer()) {
      if (file.eof() && number > 1) break;  // incomplete
      throw std::runtime_error(path_.string() + ":" + std::to_string(number) +
                               ": not a line of a training log");
    }
    if (step->get<std::int64_t>() < first_step) kept += text + "\n";
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
