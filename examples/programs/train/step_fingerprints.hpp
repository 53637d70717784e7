// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The fingerprints of a step on all ranks, as lines of a file: `train` writes them, and `replay` makes the step again.

#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <shardwise/checkpoint/same_bits.hpp>

#include "../common/trained_model.hpp"

namespace tools {

/// Those of a rank.
struct RankFingerprints {
  sw::StepFingerprints step;
  std::vector<std::string> names;  ///< of its gradients
  std::vector<std::uint64_t> gradients;
};

/// The contents of a model in training, and the loss of the last step.
class StepContents {
 public:
  StepContents(const Job& mesh, TrainedModel& model) : model_(model), contents_(mesh) {
    model.add_to(contents_);
    contents_.add("loss", loss_);
  }
  StepContents& operator=(StepContents&&) = delete;

  const sw::CheckpointContents& contents() const { return contents_; }
  /// Makes a step.
  template <class Make>
  StepResult make(Make make) {
    const StepResult result = make();
    loss_ = std::bit_cast<std::int64_t>(result.loss);
    return result;
  }
  template <class Make>
  RankFingerprints fingerprints_of(Make make) {
    RankFingerprints found;
    model_.on_gradient = [&](const std::string& name, std::uint64_t fingerprint) {
      found.names.push_back(name);
      found.gradients.push_back(fingerprint);
    };
    found.step = sw::fingerprints_of(contents_, make);
    model_.on_gradient = nullptr;
    return found;
  }

 private:
  TrainedModel& model_;
  sw::CheckpointContents contents_;
  std::int64_t loss_ = 0;  // its bits
};

inline std::string hexadecimal(std::uint64_t number) {
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(number));
  return digits.data();
}

/// A line for each rank: {"step":7,"rank":0,"ranks":4,"sent":["0123456789abcdef",…],"gradients":[…],"contents":[…]}.
/// Collective.
inline std::string lines_of_all(std::int64_t step, const RankFingerprints& own) {
  const sw::Communicator world = sw::world();
  nlohmann::ordered_json line{{"step", step}, {"rank", world.rank()}, {"ranks", world.size()}};
  const auto add = [&](const char* name, const std::vector<std::uint64_t>& all) {
    for (const std::uint64_t each : all) line[name].push_back(hexadecimal(each));
  };
  add("sent", own.step.sent);
  add("gradients", own.gradients);
  add("contents", own.step.contents);
  std::string lines;
  for (const std::string& each : world.all_gather(line.dump() + "\n")) lines += each;
  return lines;
}

/// Those of a step in such a file, by rank; of the last run that made it. Throws `std::runtime_error` if they are not
/// there, or are of another number of ranks.
inline std::vector<RankFingerprints> read_fingerprints(const std::filesystem::path& path, std::int64_t step,
                                                       int ranks) {
  std::vector<RankFingerprints> all;
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path.string() + ": it cannot be opened");
  const std::string begin = "{\"step\":" + std::to_string(step) + ",";
  for (std::string line; std::getline(file, line);) {
    const sw::Json read = line.starts_with(begin) ? sw::Json::parse(line, nullptr, false) : sw::Json();
    if (!read.is_object()) continue;  // of another step, or of a run that was killed
    const auto numbers = [&](const char* name) {
      std::vector<std::uint64_t> found;
      for (const sw::Json& each : read.value(name, sw::Json()))
        found.push_back(std::stoull(each.get<std::string>(), nullptr, 16));
      return found;
    };
    const auto rank = read.at("rank").get<std::size_t>();
    if (rank == 0) all.assign(read.at("ranks").get<std::size_t>(), {});
    if (rank < all.size()) all[rank] = {{numbers("sent"), numbers("contents")}, {}, numbers("gradients")};
  }
  std::erase_if(all, [](const RankFingerprints& each) { return each.step.contents.empty(); });
  if (std::ssize(all) != ranks)
    throw std::runtime_error(path.string() + " has fingerprints of step " + std::to_string(step) + " of " +
                             std::to_string(all.size()) + " ranks, expected those of " +
                             std::to_string(ranks));
  return all;
}

}  // namespace tools
