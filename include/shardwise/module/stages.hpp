// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The stages of a pipeline that belong to one rank.

#include <shardwise/module/parameters.hpp>

namespace shardwise {

template <class Job, MeshAxis Axis>
class Pipeline;

/// Parts of a model by stage number. As a module it has the parameters of these parts, under their names in the model.
template <class Part>
class Stages {
 public:
  static constexpr bool divided = true;

  /// Throws `std::logic_error` after the first step of a pipeline with these stages.
  constexpr void add(int stage, Part part) {
    if (names_are_checked_) throw std::logic_error("Stages: a stage is added before the first step");
    stages_.push_back({stage, std::move(part)});
  }
  /// Throws `std::out_of_range` for a stage of another rank.
  constexpr Part& at(int stage) {
    const auto found = std::ranges::find(stages_, stage, &Numbered::stage);
    if (found == stages_.end()) {
      detail::fail<std::out_of_range>({"Stages: stage ", stage, " is not on this rank"});
    }
    return found->part;
  }
  /// The first stage on this rank; each rank has one.
  constexpr Part& front() { return stages_.front().part; }
  constexpr bool has(int stage) const {
    return std::ranges::find(stages_, stage, &Numbered::stage) != stages_.end();
  }
  constexpr void visit(auto&& f) {
    for (Numbered& each : stages_) each.part.visit(f);
  }

 private:
  struct Numbered {
    int stage;
    Part part;
  };
  template <class, MeshAxis>
  friend class Pipeline;

  std::vector<Numbered> stages_;
  bool names_are_checked_ = false;
};

}  // namespace shardwise
