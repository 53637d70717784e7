// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The plan of one more token of a text: the model of `generate` runs dry.

#include <string_view>
#include <vector>

#include <shardwise/llm/models/llama/config.hpp>

#include "llama_mesh.hpp"

namespace tools {

/// The work of a rank for the last token of a text that fills the model's context.
struct TokenPlan {
  JobPlan plan;
  std::vector<sw::Event> events;
  sw::Index weights =
      0;                ///< bytes of weights that it reads, of experts those that it chooses, if all are here
  sw::Index cache = 0;  ///< bytes of the cache of keys and values, with room for the context
};

/// On the rank at these coordinates. `bits`: of a weight, 32, 16, 8 or 4. `ranks_per_host`: as for `sw::trace`.
TokenPlan plan_token(int bits, const JobSizes& sizes, const sw::llm::LlamaConfig& config,
                     const JobSizes& at = {}, int ranks_per_host = 0);

/// Products with weights, of which a token is one row, take the time of the weights that they read.
inline bool reads_weights(const sw::Event& event) {
  return event.operation &&
         (event.operation == std::string_view("linear") || event.operation == std::string_view("experts"));
}

}  // namespace tools
