// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The families of models in Hugging Face's files that a `Llama` computes by options of its configuration.

#include <shardwise/llm/models/llama/config.hpp>
#include <shardwise/llm/namespaces.hpp>

namespace shardwise::llm {

/// A family of models: its names in Hugging Face's files, and what a config.json of this type means if it does not say
/// otherwise, as in transformers. Sizes that transformers also has defaults for must be given.
struct HuggingFaceFamily {
  const char *type, *architecture;
  LlamaConfig defaults;

  /// Which family it is, by what only this family has.
  constexpr bool gemma() const { return defaults.output_norms; }
  constexpr bool mixtral() const { return type == std::string_view("mixtral"); }
  constexpr bool deepseek() const { return std::string_view(type).starts_with("deepseek"); }
  constexpr bool qwen() const { return !gemma() && (defaults.qkv_bias || defaults.head_norms); }
};

/// The families that can be read and written, by `model_type` in config.json.
inline constexpr std::array hugging_face_families{
    HuggingFaceFamily{"llama", "LlamaForCausalLM", {.kv_heads = 0, .context = 2048, .epsilon = 1e-6}},
    HuggingFaceFamily{
        "mistral", "MistralForCausalLM", {.kv_heads = 8, .context = 131072, .window = 4096, .epsilon = 1e-6}},
    HuggingFaceFamily{
        "qwen2", "Qwen2ForCausalLM", {.kv_heads = 32, .context = 32768, .epsilon = 1e-6, .qkv_bias = true}},
    HuggingFaceFamily{
        "qwen3",
        "Qwen3ForCausalLM",
        {.kv_heads = 32, .head_dim = 128, .context = 32768, .epsilon = 1e-6, .head_norms = true}},
    HuggingFaceFamily{"mixtral",
                      "MixtralForCausalLM",
                      {.kv_heads = 8,
                       .context = 131072,
                       .theta = 1000000,
                       .experts = MixtureOptions{.experts = 8, .hidden = 14336},
                       .balance = 0.001}},
    HuggingFaceFamily{
        "qwen3_moe",
        "Qwen3MoeForCausalLM",
        {.kv_heads = 4,
         .context = 32768,
         .epsilon = 1e-6,
         .head_norms = true,
         .experts = MixtureOptions{.experts = 128, .hidden = 768, .routing = {.k = 8, .normalized = false}},
         .balance = 0.001}},
    HuggingFaceFamily{
        "deepseek",
        "DeepseekForCausalLM",
        {.kv_heads = 0,
         .context = 4096,
         .epsilon = 1e-6,
         .experts = MixtureOptions{.experts = 64, .hidden = 1408, .routing = {.k = 6, .normalized = false}}}},
    HuggingFaceFamily{
        "deepseek_v2",
        "DeepseekV2ForCausalLM",
        {.kv_heads = 0,
         .context = 2048,
         .epsilon = 1e-6,
         .latent = LatentSizes{},
         .experts = MixtureOptions{.experts = 64, .hidden = 1408, .routing = {.k = 6, .normalized = false}}}},
    HuggingFaceFamily{"deepseek_v3",
                      "DeepseekV3ForCausalLM",
                      {.kv_heads = 0,
                       .head_dim = 192,
                       .context = 4096,
                       .epsilon = 1e-6,
                       .latent = LatentSizes{.q_rank = 1536},
                       .experts = MixtureOptions{.experts = 256,
                                                 .hidden = 2048,
                                                 .routing = {.k = 8,
                                                             .scores = ScoreFunction::sigmoid,
                                                             .scale = 2.5,
                                                             .choice = {.groups = 8, .kept_groups = 4}},
                                                 .shared_hidden = 2048,
                                                 .bias = true},
                       .dense_layers = 3}},
    HuggingFaceFamily{"gemma2",
                      "Gemma2ForCausalLM",
                      {.kv_heads = 4,
                       .head_dim = 256,
                       .context = 8192,
                       .window = 4096,
                       .epsilon = 1e-6,
                       .tied = true,
                       .output_norms = true,
                       .norm_offset = 1,
                       .scaled_tokens = true,
                       .gelu = true,
                       .full_every = 2,
                       .query_scalar = 256,
                       .attention_softcap = 50,
                       .logit_softcap = 30}},
    HuggingFaceFamily{"gemma3_text",
                      "Gemma3ForCausalLM",
                      {.kv_heads = 4,
                       .head_dim = 256,
                       .context = 131072,
                       .window = 4096,
                       .epsilon = 1e-6,
                       .theta = 1000000,
                       .tied = true,
                       .head_norms = true,
                       .output_norms = true,
                       .norm_offset = 1,
                       .scaled_tokens = true,
                       .gelu = true,
                       .full_every = 6,
                       .window_theta = 10000,
                       .query_scalar = 256}},
};

namespace detail {

/// Whether a family with experts has such experts.
constexpr bool has_experts_of(const HuggingFaceFamily& family, const LlamaConfig& config) {
  const MixtureOptions &experts = *config.experts, &own = *family.defaults.experts;
  const RoutingOptions& routing = experts.routing;
  if (experts.bias != own.bias || routing.scores != own.routing.scores) return false;
  if (!own.bias && routing.choice.groups != 1) return false;
  if (family.deepseek()) return experts.shared_hidden % experts.hidden == 0;
  const bool alike = config.dense_layers == 0 && experts.shared_hidden == 0 && routing.scale == 1;
  return alike && (!family.mixtral() || (routing.normalized && experts.hidden == config.hidden));
}

}  // namespace detail

/// The one of `hugging_face_families` that computes what this configuration says. Throws
/// `std::invalid_argument` if there is none.
inline const HuggingFaceFamily& hugging_face_family(const LlamaConfig& config) {
  if (config.interleaved)
    throw std::invalid_argument(
        "LlamaConfig: interleaved is true, as in GGUF, expected false for other files");
  const auto parts = [](const LlamaConfig& of) {
    return std::tuple(of.qkv_bias, of.head_norms, of.output_norms, of.norm_offset, of.scaled_tokens, of.gelu,
                      of.window_theta.has_value(), of.latent.has_value());
  };
  const bool capped = config.attention_softcap > 0 || config.logit_softcap > 0 || config.query_scalar > 0;
  for (const HuggingFaceFamily& family : hugging_face_families) {
    const LlamaConfig& own = family.defaults;
    if (parts(config) != parts(own) || config.experts.has_value() != own.experts.has_value()) continue;
    if (config.experts && !detail::has_experts_of(family, config)) continue;
    if (!family.gemma() && (capped || config.full_every > 0)) continue;
    if (config.attention_softcap > 0 && own.attention_softcap == 0) continue;
    if (family.gemma() && !config.window) continue;
    if (config.window && !own.window && !family.qwen()) continue;
    if (own.full_every == 2 && config.full_every != 2) continue;
    return family;
  }
  throw std::invalid_argument("LlamaConfig: no family of Hugging Face's models has these options together");
}

}  // namespace shardwise::llm
