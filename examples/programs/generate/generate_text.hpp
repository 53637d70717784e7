// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Text generation with a Llama.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <shardwise/llm/text/sampling.hpp>

namespace tools {

namespace sw = shardwise;

struct TextOptions {
  std::filesystem::path weights, tokens, prompts, to, dump_logits;
  std::string prompt;
  bool chat = false;
  int pp = 1, weight_bits = 32;
  sw::Index new_tokens = 200, rows = 8;
  sw::llm::SamplingOptions sampling{.temperature = 0.8, .top_k = 40};
  double repetition_penalty = 1;
  std::uint64_t seed = 1;
  std::vector<std::string> stops;
};

/// Continues a prompt with the weights of a folder, optionally writing the logits of the prompt; or the prompts of a
/// file, several at once; or a dialogue on the terminal. The layers are divided over `pp` stages; the ranks of a stage
/// split each layer, and the key/value heads over as many ranks as divide their number. Returns whether every prompt has a text. Collective
/// over the whole job.
bool write_text(const TextOptions& options);

}  // namespace tools
