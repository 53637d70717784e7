// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Text from a Llama: tokens are drawn one by one, with a cache of keys and values that is sharded as the heads
/// are.

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>

#include <shardwise/mesh/communication_plan.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/models/llama/config.hpp>
#include <shardwise/text/sampling.hpp>

#include "llama_mesh.hpp"

namespace tools {

namespace sw = shardwise;

struct TextOptions {
  std::filesystem::path weights, tokens, dump_logits;
  std::string prompt;
  sw::Index new_tokens = 200;
  sw::SamplingOptions sampling{.temperature = 0.8, .top_k = 40};
  std::uint64_t seed = 1;
};

using Mesh = LlamaMesh<sw::Mesh>;
using TextPlan = sw::LlamaTensorParallel<Split>;

/// Continues a prompt with the weights of a folder; writes the logits of the prompt if asked. Collective.
void write_text(const Mesh& mesh, const TextOptions& options);

/// What generating a token communicates, on a mesh of these sizes.
using TokenPlan = sw::CommunicationPlan<replica, sw::dp, sw::tp, sw::kvr>;
TokenPlan plan_token(const std::array<int, 4>& sizes, const sw::LlamaConfig& config);

}  // namespace tools
