// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Sizes of Llama models: a small one for experiments, and the published ones (Touvron et al., "Llama 2", 2023;
/// Grattafiori et al., "The Llama 3 herd of models", 2024; Llama 3.2's model cards). The context is that of most of
/// their training.

#include <array>
#include <string_view>

#include <shardwise/models/llama/config.hpp>

namespace tools {

namespace sw = shardwise;

struct LlamaPreset {
  std::string_view name;
  sw::LlamaConfig config;
};

constexpr sw::LlamaConfig llama2(sw::Index features, sw::Index layers, sw::Index heads, sw::Index kv_heads,
                                 sw::Index hidden) {
  return {.vocabulary = 32000,
          .features = features,
          .layers = layers,
          .heads = heads,
          .kv_heads = kv_heads,
          .hidden = hidden,
          .context = 4096};
}
/// The smallest ones have a tied head.
constexpr sw::LlamaConfig llama3(sw::Index features, sw::Index layers, sw::Index heads, sw::Index hidden,
                                 bool tied = false) {
  return {.vocabulary = 128256,
          .features = features,
          .layers = layers,
          .heads = heads,
          .kv_heads = 8,
          .hidden = hidden,
          .context = 8192,
          .theta = 500000,
          .tied = tied};
}

inline constexpr std::array llama_presets{
    LlamaPreset{"small",
                {.vocabulary = 256,
                 .features = 128,
                 .layers = 4,
                 .heads = 8,
                 .kv_heads = 2,
                 .hidden = 384,
                 .context = 128}},
    LlamaPreset{"1b", llama3(2048, 16, 32, 8192, true)},
    LlamaPreset{"3b", llama3(3072, 28, 24, 8192, true)},
    LlamaPreset{"7b", llama2(4096, 32, 32, 32, 11008)},
    LlamaPreset{"8b", llama3(4096, 32, 32, 14336)},
    LlamaPreset{"13b", llama2(5120, 40, 40, 40, 13824)},
    LlamaPreset{"llama2-70b", llama2(8192, 80, 64, 8, 28672)},
    LlamaPreset{"70b", llama3(8192, 80, 64, 28672)},
    LlamaPreset{"405b", llama3(16384, 126, 128, 53248)},
};

}  // namespace tools
