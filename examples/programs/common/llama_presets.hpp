// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Sizes of models: a small one for experiments, and published ones (Touvron et al., "Llama 2", 2023; Grattafiori et
/// al., "The Llama 3 herd of models", 2024; the config.json of Llama 3.2, Qwen 2.5 and 3, Gemma 2 and 3, Mixtral, DeepSeek V3). The context
/// is that of most of their training, for Qwen 4096 tokens.

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>

#include <shardwise/llm/models/llama/families.hpp>

namespace tools {

namespace sw = shardwise;

struct LlamaPreset {
  std::string_view name;
  sw::llm::LlamaConfig config;
};

constexpr sw::llm::LlamaConfig llama2(sw::Index features, sw::Index layers, sw::Index heads,
                                      sw::Index kv_heads, sw::Index hidden) {
  return {.vocabulary = 32000,
          .features = features,
          .layers = layers,
          .heads = heads,
          .kv_heads = kv_heads,
          .hidden = hidden,
          .context = 4096};
}
/// The smallest ones have a tied head.
constexpr sw::llm::LlamaConfig llama3(sw::Index features, sw::Index layers, sw::Index heads, sw::Index hidden,
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
inline std::string family_name(const sw::llm::LlamaConfig& config) {
  const std::string_view architecture = sw::llm::hugging_face_family(config).architecture;
  return std::string(architecture.substr(0, architecture.find("ForCausalLM")));
}

/// A model of another family, with these sizes.
constexpr sw::llm::LlamaConfig of_family(std::string_view type, const sw::llm::LlamaConfig& sizes) {
  for (const sw::llm::HuggingFaceFamily& family : sw::llm::hugging_face_families) {
    if (family.type != type) continue;
    sw::llm::LlamaConfig config = family.defaults;
    config.vocabulary = sizes.vocabulary;
    config.features = sizes.features;
    config.layers = sizes.layers;
    config.heads = sizes.heads;
    config.kv_heads = sizes.kv_heads;
    config.hidden = sizes.hidden;
    config.context = sizes.context;
    config.window = sizes.window;
    config.theta = sizes.theta;
    config.tied = sizes.tied;
    return config;
  }
  throw std::invalid_argument("the table of families has no such type");
}
constexpr sw::llm::LlamaConfig qwen3(sw::Index features, sw::Index layers, sw::Index heads, sw::Index hidden,
                                     bool tied) {
  return of_family("qwen3", {.vocabulary = 151936,
                             .features = features,
                             .layers = layers,
                             .heads = heads,
                             .kv_heads = 8,
                             .hidden = hidden,
                             .context = 4096,
                             .theta = 1000000,
                             .tied = tied});
}

constexpr sw::llm::LlamaConfig deepseek_v3() {
  return of_family("deepseek_v3", {.vocabulary = 129280,
                                   .features = 7168,
                                   .layers = 61,
                                   .heads = 128,
                                   .kv_heads = 128,
                                   .hidden = 18432,
                                   .context = 4096});
}
/// Qwen3-30B-A3B.
constexpr sw::llm::LlamaConfig qwen3_moe() {
  sw::llm::LlamaConfig config = of_family("qwen3_moe", {.vocabulary = 151936,
                                                        .features = 2048,
                                                        .layers = 48,
                                                        .heads = 32,
                                                        .kv_heads = 4,
                                                        .hidden = 6144,
                                                        .context = 4096,
                                                        .theta = 1000000});
  config.head_dim = 128;
  config.experts->routing.normalized = true;
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
    LlamaPreset{"qwen2.5-7b", of_family("qwen2", {.vocabulary = 152064,
                                                  .features = 3584,
                                                  .layers = 28,
                                                  .heads = 28,
                                                  .kv_heads = 4,
                                                  .hidden = 18944,
                                                  .context = 4096,
                                                  .theta = 1000000})},
    LlamaPreset{"qwen3-0.6b", qwen3(1024, 28, 16, 3072, true)},
    LlamaPreset{"qwen3-4b", qwen3(2560, 36, 32, 9728, true)},
    LlamaPreset{"qwen3-32b", qwen3(5120, 64, 64, 25600, false)},
    LlamaPreset{"mixtral-8x7b", of_family("mixtral", {.vocabulary = 32000,
                                                      .features = 4096,
                                                      .layers = 32,
                                                      .heads = 32,
                                                      .kv_heads = 8,
                                                      .hidden = 14336,
                                                      .context = 4096,
                                                      .theta = 1000000})},
    LlamaPreset{"qwen3-30b-a3b", qwen3_moe()},
    LlamaPreset{"deepseek-v3", deepseek_v3()},
    LlamaPreset{"gemma2-2b", of_family("gemma2", {.vocabulary = 256000,
                                                  .features = 2304,
                                                  .layers = 26,
                                                  .heads = 8,
                                                  .kv_heads = 4,
                                                  .hidden = 9216,
                                                  .context = 8192,
                                                  .window = 4096,
                                                  .tied = true})},
    LlamaPreset{"gemma3-1b", of_family("gemma3_text", {.vocabulary = 262144,
                                                       .features = 1152,
                                                       .layers = 26,
                                                       .heads = 4,
                                                       .kv_heads = 1,
                                                       .hidden = 6912,
                                                       .context = 32768,
                                                       .window = 512,
                                                       .theta = 1000000,
                                                       .tied = true})},
};

}  // namespace tools
