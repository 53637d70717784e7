// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Those keys of a config.json that state the rotary embeddings and the sizes of latent attention.

#include <shardwise/models/llama/expert_keys.hpp>

namespace shardwise::detail {

/// Reads all forms of rotary embeddings; if several are present they must agree. Layers with a window may have
/// their own.
void read_rope(const JsonPart& config, LlamaConfig& result);
/// The value of "rope_scaling".
Json rope_scaling_keys(const RopeScaling& scaling);

/// The sizes of latent attention, and head_dim, which has another meaning in the files of such models.
void read_latent(const JsonPart& config, LlamaConfig& result);
/// The reverse, for a configuration that has them.
void write_latent(const LlamaConfig& config, Json& json);

}  // namespace shardwise::detail

#ifdef SHARDWISE_BODIES
namespace shardwise::detail {

struct Rope {
  std::optional<double> theta;
  std::optional<RopeScaling> scaling;
};

/// Reads "rope_parameters" or, before transformers 5, "rope_scaling".
SHARDWISE_INLINE Rope read_rope(const JsonPart& rope) {
  rope.must_be("partial_rotary_factor", 1);
  Rope result;
  if (!rope["rope_theta"].null()) result.theta = rope["rope_theta"].positive_number();
  const JsonPart type = rope[rope["rope_type"].null() && !rope["type"].null() ? "type" : "rope_type"];
  // With a theta alone the type is the default; a scaling must state its type.
  const bool plain = type.json() == "default" || (type.null() && result.theta && rope["factor"].null());
  const bool linear = type.json() == "linear", yarn = type.json() == "yarn";
  if (!plain && !linear && !yarn && type.json() != "llama3") {
    type.expected("\"default\", \"linear\", \"llama3\" or \"yarn\"");
  }
  if (yarn) {
    rope.only({"rope_theta", "rope_type", "type", "factor", "original_max_position_embeddings",
               "partial_rotary_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"});
  } else {
    rope.only({"rope_theta", "rope_type", "type", "factor", "low_freq_factor", "high_freq_factor",
               "original_max_position_embeddings", "partial_rotary_factor"});
  }
  if (plain) return result;
  RopeScaling& scaling = result.scaling.emplace();
  scaling.factor = rope["factor"].positive_number();
  scaling.rope_type = linear ? RopeType::linear : yarn ? RopeType::yarn : RopeType::llama3;
  if (linear) return result;
  if (yarn) {
    rope.must_be("truncate", true);
    scaling.beta_fast = read_number(rope, "beta_fast", scaling.beta_fast);
    scaling.beta_slow = read_number(rope, "beta_slow", scaling.beta_slow);
    if (!(scaling.beta_slow < scaling.beta_fast)) {
      rope.fail("beta_slow is " + Json(scaling.beta_slow).dump() + ", expected less than beta_fast, " +
                Json(scaling.beta_fast).dump());
    }
    scaling.mscale = read_number(rope, "mscale", scaling.mscale);
    scaling.mscale_all_dim = read_number(rope, "mscale_all_dim", scaling.mscale_all_dim);
    scaling.original_max_position_embeddings = read_size(rope, "original_max_position_embeddings");
    return result;
  }
  scaling.low_freq_factor = read_number(rope, "low_freq_factor", scaling.low_freq_factor);
  scaling.high_freq_factor = read_number(rope, "high_freq_factor", scaling.high_freq_factor);
  scaling.original_max_position_embeddings = read_size(rope, "original_max_position_embeddings");
  if (!(scaling.low_freq_factor < scaling.high_freq_factor)) {
    rope.fail("low_freq_factor is " + Json(scaling.low_freq_factor).dump() +
              ", expected less than high_freq_factor, " + Json(scaling.high_freq_factor).dump());
  }
  return result;
}

SHARDWISE_INLINE void read_rope(const JsonPart& config, LlamaConfig& result) {
  config.must_be("partial_rotary_factor", 1);
  std::optional<double> theta;
  if (!config["rope_theta"].null()) theta = config["rope_theta"].positive_number();
  if (result.window_theta) {
    result.window_theta = read_number(config, "rope_local_base_freq", *result.window_theta);
  }
  bool first = true;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    JsonPart part = config[key];
    if (part.null()) continue;
    if (const JsonPart window = part["sliding_attention"]; result.window_theta && !window.null()) {
      const Rope local = read_rope(window);
      if (local.scaling) window.expected("no scaling");
      result.window_theta = local.theta.value_or(*result.window_theta);
      part.only({"sliding_attention", "full_attention"});
      part = part["full_attention"];
    }
    const Rope rope = read_rope(part);
    if (rope.theta && theta && *rope.theta != *theta) {
      config.fail("rope_theta is " + Json(*theta).dump() + " and " + Json(*rope.theta).dump() +
                  ", expected one value");
    }
    if (!first && rope.scaling != result.scaling) part.expected("what rope_scaling says");
    if (rope.theta) theta = rope.theta;
    result.scaling = rope.scaling;
    first = false;
  }
  result.theta = theta.value_or(result.theta);
}

SHARDWISE_INLINE Json rope_scaling_keys(const RopeScaling& scaling) {
  constexpr std::array types{"linear", "llama3", "yarn"};
  Json rope{{"rope_type", types[static_cast<std::size_t>(scaling.rope_type)]}, {"factor", scaling.factor}};
  if (scaling.rope_type == RopeType::llama3) {
    rope["low_freq_factor"] = scaling.low_freq_factor;
    rope["high_freq_factor"] = scaling.high_freq_factor;
  } else if (scaling.rope_type == RopeType::yarn) {
    rope["beta_fast"] = scaling.beta_fast;
    rope["beta_slow"] = scaling.beta_slow;
    if (scaling.mscale != 0) rope["mscale"] = scaling.mscale;
    if (scaling.mscale_all_dim != 0) rope["mscale_all_dim"] = scaling.mscale_all_dim;
  }
  if (scaling.rope_type != RopeType::linear) {
    rope["original_max_position_embeddings"] = scaling.original_max_position_embeddings;
  }
  return rope;
}

SHARDWISE_INLINE void read_latent(const JsonPart& config, LlamaConfig& result) {
  LatentSizes& sizes = result.latent.emplace();
  if (!config.json().contains("q_lora_rank")) config["q_lora_rank"].expected("a number or null");
  sizes.q_rank = read_size(config, "q_lora_rank", 0);
  sizes.kv_rank = read_size(config, "kv_lora_rank");
  sizes.rope_dim = read_size(config, "qk_rope_head_dim");
  sizes.value_dim = read_size(config, "v_head_dim");
  sizes.interleaved = config.get<bool>("rope_interleave", true);
  config.must_be("head_dim", sizes.rope_dim);
  const Index most = std::numeric_limits<Index>::max() - sizes.rope_dim;
  result.head_dim = config["qk_nope_head_dim"].integer(1, most) + sizes.rope_dim;
}

SHARDWISE_INLINE void write_latent(const LlamaConfig& config, Json& json) {
  const LatentSizes& sizes = *config.latent;
  json["q_lora_rank"] = sizes.q_rank > 0 ? Json(sizes.q_rank) : Json();
  json["kv_lora_rank"] = sizes.kv_rank;
  json["qk_nope_head_dim"] = config.head_size() - sizes.rope_dim;
  json["qk_rope_head_dim"] = json["head_dim"] = sizes.rope_dim;
  json["v_head_dim"] = sizes.value_dim;
  json["rope_interleave"] = sizes.interleaved;
}

}  // namespace shardwise::detail
#endif
