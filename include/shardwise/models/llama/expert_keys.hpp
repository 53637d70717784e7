// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The keys of a config.json that describe experts. Each family has its own names for them.

#include <shardwise/io/json.hpp>
#include <shardwise/models/llama/families.hpp>

namespace shardwise::detail {

/// A number of at least 1; if it is absent, `otherwise`, or an error.
inline Index read_size(const JsonPart& config, const char* key, std::optional<Index> otherwise = {}) {
  const JsonPart part = config[key];
  return otherwise && part.null() ? *otherwise : part.integer(1, std::numeric_limits<Index>::max());
}
inline double read_number(const JsonPart& config, const char* key, double otherwise) {
  const JsonPart part = config[key];
  return part.null() ? otherwise : part.positive_number();
}

/// Reads the experts of a family that has them.
void read_experts(const JsonPart& config, const HuggingFaceFamily& family, LlamaConfig& result);
/// Sets their keys.
void write_experts(Json& json, const HuggingFaceFamily& family, const LlamaConfig& config);

}  // namespace shardwise::detail

#ifdef SHARDWISE_BODIES
namespace shardwise::detail {

SHARDWISE_INLINE void read_experts(const JsonPart& config, const HuggingFaceFamily& family,
                                   LlamaConfig& result) {
  if (!family.defaults.experts) return;
  MixtureOptions& mixture = *result.experts;
  RoutingOptions& routing = mixture.routing;
  routing.k = read_size(config, "num_experts_per_tok", routing.k);
  if (family.mixtral()) {
    mixture.experts = read_size(config, "num_local_experts", mixture.experts);
    mixture.hidden = result.hidden;
    config.must_be("router_jitter_noise", 0.0);
  } else {
    mixture.experts =
        read_size(config, family.deepseek() ? "n_routed_experts" : "num_experts", mixture.experts);
    mixture.hidden = read_size(config, "moe_intermediate_size", mixture.hidden);
    routing.normalized = config.get<bool>("norm_topk_prob", routing.normalized);
  }
  if (family.deepseek()) {
    const auto number = [&](const char* key, Index otherwise) {
      return config[key].null() ? otherwise
                                : config[key].integer(0, std::numeric_limits<std::int32_t>::max());
    };
    const Index shared = mixture.shared_hidden / family.defaults.experts->hidden;
    mixture.shared_hidden = number("n_shared_experts", shared) * std::min(mixture.hidden, Index{1} << 31);
    result.dense_layers = number("first_k_dense_replace", result.dense_layers);
    routing.scale = read_number(config, "routed_scaling_factor", routing.scale);
    config.must_be("moe_layer_freq", 1);
    config.must_be("scoring_func", mixture.bias ? "sigmoid" : "softmax");
    config.must_be("topk_method", mixture.bias ? "noaux_tc" : "greedy");
    if (mixture.bias) {
      routing.choice = {number("n_group", routing.choice.groups),
                        number("topk_group", routing.choice.kept_groups)};
    } else if (routing.normalized && routing.scale != 1) {
      config["norm_topk_prob"].expected("false, because routed_scaling_factor is not 1");
    }
  } else if (!family.mixtral()) {
    config.must_be("decoder_sparse_step", 1);
    config.must_be("mlp_only_layers", Json::array());
  }
  // As transformers, which otherwise does not compute the loss.
  result.balance = config.get<bool>("output_router_logits", false)
                       ? read_number(config, "router_aux_loss_coef", result.balance)
                       : 0;
}
SHARDWISE_INLINE void write_experts(Json& json, const HuggingFaceFamily& family, const LlamaConfig& config) {
  if (!config.experts) return;
  const MixtureOptions& mixture = *config.experts;
  json["num_experts_per_tok"] = mixture.routing.k;
  if (family.mixtral()) {
    json["num_local_experts"] = mixture.experts;
  } else {
    json[family.deepseek() ? "n_routed_experts" : "num_experts"] = mixture.experts;
    json["moe_intermediate_size"] = mixture.hidden;
    json["norm_topk_prob"] = mixture.routing.normalized;
  }
  if (family.deepseek()) {
    json["n_shared_experts"] = mixture.shared_hidden / mixture.hidden;
    json["first_k_dense_replace"] = config.dense_layers;
    json["routed_scaling_factor"] = mixture.routing.scale;
    json["scoring_func"] = mixture.bias ? "sigmoid" : "softmax";
    json["topk_method"] = mixture.bias ? "noaux_tc" : "greedy";
    if (mixture.bias) json["n_group"] = mixture.routing.choice.groups;
    if (mixture.bias) json["topk_group"] = mixture.routing.choice.kept_groups;
  }
  if (config.balance > 0) json["router_aux_loss_coef"] = config.balance;
  if (config.balance > 0 || !family.deepseek()) json["output_router_logits"] = config.balance > 0;
}

}  // namespace shardwise::detail
#endif
