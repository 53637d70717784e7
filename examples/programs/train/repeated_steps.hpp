// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Steps that are made twice, for --repeat-every.

#include <cstdio>
#include <optional>
#include <stdexcept>

#include <shardwise/checkpoint/same_bits.hpp>

#include "run.hpp"

namespace tools {

class RepeatedSteps {
 public:
  RepeatedSteps(Run& run, TrainedModel& model) : run_(run) {
    if (run.options().repeat_every == 0) return;
    contents_.emplace(run.mesh());
    model.add_to(*contents_);
  }

  /// Returns the result of make(), which makes a step. If bits differ, it warns; throws `std::runtime_error` if copies on
  /// several ranks differ before the step, or if its bits never repeat.
  template <class Make>
  auto make(std::int64_t step, Make make) {
    if (!contents_ || step % run_.options().repeat_every != 0) return make();
    sw::compare_copies(*contents_);
    std::optional<decltype(make())> result;
    const auto found = sw::repeat_step(*contents_, [&] { result = make(); });
    if (found && !found->repaired)
      throw std::runtime_error("step " + std::to_string(step) + ": " + found->text);
    if (found && run_.prints())
      std::fprintf(stderr, "WARNING: step %lld: %s\n", static_cast<long long>(step), found->text.c_str());
    return std::move(*result);
  }

 private:
  Run& run_;
  std::optional<sw::CheckpointContents> contents_;
};

}  // namespace tools
