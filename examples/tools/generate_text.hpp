// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Text generation with a Llama.

#include <cstdint>
#include <filesystem>
#include <string>

#include <shardwise/text/sampling.hpp>

namespace tools {

namespace sw = shardwise;

struct TextOptions {
  std::filesystem::path weights, tokens, dump_logits;
  std::string prompt;
  int pp = 1, weight_bits = 32;
  sw::Index new_tokens = 200;
  sw::SamplingOptions sampling{.temperature = 0.8, .top_k = 40};
  std::uint64_t seed = 1;
};

/// Continues a prompt with the weights of a folder; optionally writes the logits of the prompt. The layers are
/// divided over `pp` stages; the ranks of a stage split each layer, and the key/value heads over as many ranks as
/// divide their number. Collective over the whole job.
void write_text(const TextOptions& options);

}  // namespace tools
