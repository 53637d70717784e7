// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Sizes of models: a small one for experiments, and published ones (Touvron et al., "Llama 2", 2023; Grattafiori et
/// al., "The Llama 3 herd of models", 2024; the config.json of Llama 3.2, Qwen 2.5 and 3, Gemma 2 and 3). The context is
/// that of most of their training, for Qwen 4096 tokens.

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>

#include <shardwise/models/llama/config_file.hpp>

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

/// "Llama", "Qwen3", …
inline std::string family_name(const sw::LlamaConfig& config) {
  const std::string_view architecture = sw::detail::family_of(config).architecture;
  return std::string(architecture.substr(0, architecture.find("ForCausalLM")));
}

constexpr sw::LlamaConfig family(std::string_view type) {
  for (const sw::HuggingFaceFamily& each : sw::hugging_face_families) {
    if (each.type == type) return each.defaults;
  }
  throw std::invalid_argument("there is no such family");
}
constexpr sw::LlamaConfig qwen25(sw::Index features, sw::Index layers, sw::Index heads, sw::Index kv_heads,
                                 sw::Index hidden) {
  sw::LlamaConfig config = family("qwen2");
  config.vocabulary = 152064;
  config.features = features;
  config.layers = layers;
  config.heads = heads;
  config.kv_heads = kv_heads;
  config.hidden = hidden;
  config.context = 4096;
  config.theta = 1000000;
  return config;
}
constexpr sw::LlamaConfig qwen3(sw::Index features, sw::Index layers, sw::Index heads, sw::Index hidden,
                                bool tied) {
  sw::LlamaConfig config = family("qwen3");
  config.vocabulary = 151936;
  config.features = features;
  config.layers = layers;
  config.heads = heads;
  config.kv_heads = 8;
  config.hidden = hidden;
  config.context = 4096;
  config.theta = 1000000;
  config.tied = tied;
  return config;
}
constexpr sw::LlamaConfig gemma2_2b() {
  sw::LlamaConfig config = family("gemma2");
  config.vocabulary = 256000;
  config.features = 2304;
  config.layers = 26;
  config.heads = 8;
  config.hidden = 9216;
  return config;
}
constexpr sw::LlamaConfig gemma3_1b() {
  sw::LlamaConfig config = family("gemma3_text");
  config.vocabulary = 262144;
  config.features = 1152;
  config.layers = 26;
  config.heads = 4;
  config.kv_heads = 1;
  config.hidden = 6912;
  config.context = 32768;
  config.window = 512;
  return config;
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
    LlamaPreset{"qwen2.5-7b", qwen25(3584, 28, 28, 4, 18944)},
    LlamaPreset{"qwen3-0.6b", qwen3(1024, 28, 16, 3072, true)},
    LlamaPreset{"qwen3-4b", qwen3(2560, 36, 32, 9728, true)},
    LlamaPreset{"qwen3-32b", qwen3(5120, 64, 64, 25600, false)},
    LlamaPreset{"gemma2-2b", gemma2_2b()},
    LlamaPreset{"gemma3-1b", gemma3_1b()},
};

}  // namespace tools
