// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The keys of a config.json and the members of a `LlamaConfig` that they state: lists by which files are read, checked
/// and written; and the rotary embeddings, which have several forms.

#include <shardwise/io/json.hpp>
#include <shardwise/llm/models/llama/families.hpp>
#include <shardwise/llm/namespaces.hpp>

namespace shardwise::llm::detail {

/// How a key is read. Numbers are positive; other values have the type of the member.
enum class KeyKind : std::uint8_t {
  optional,  ///< absent or null: the member stays as it is
  required,
  count,    ///< optional, and may be 0
  or_null,  ///< optional, and null is 0
};

/// Calls key(name, member, kind) for the sizes of latent attention, except `qk_nope_head_dim`.
void each_latent_key(auto& sizes, auto&& key) {
  key("q_lora_rank", sizes.q_rank, KeyKind::or_null);
  key("kv_lora_rank", sizes.kv_rank, KeyKind::required);
  key("qk_rope_head_dim", sizes.rope_dim, KeyKind::required);
  key("v_head_dim", sizes.value_dim, KeyKind::required);
  key("rope_interleave", sizes.interleaved);
}

/// Those of experts, except `n_shared_experts`. A key that has one value in all supported models comes with a `Json`.
void each_expert_key(const HuggingFaceFamily& family, auto& config, auto&& key) {
  auto& mixture = *config.experts;
  auto& routing = mixture.routing;
  const char* const experts = family.mixtral()    ? "num_local_experts"
                              : family.deepseek() ? "n_routed_experts"
                                                  : "num_experts";
  // A DeepSeek without this key is dense in DeepSeek's own code, and has 64 or 256 experts in transformers.
  key(experts, mixture.experts, family.deepseek() ? KeyKind::required : KeyKind::optional);
  key("num_experts_per_tok", routing.k);
  if (family.mixtral()) return key("router_jitter_noise", Json(0.0));
  key("moe_intermediate_size", mixture.hidden);
  key("norm_topk_prob", routing.normalized);
  if (!family.deepseek()) {
    key("decoder_sparse_step", Json(1));
    return key("mlp_only_layers", Json::array());
  }
  key("first_k_dense_replace", config.dense_layers, KeyKind::count);
  key("routed_scaling_factor", routing.scale);
  key("moe_layer_freq", Json(1));
  key("scoring_func", Json(mixture.bias ? "sigmoid" : "softmax"));
  key("topk_method", Json(mixture.bias ? "noaux_tc" : "greedy"));
  if (!mixture.bias) return;
  key("n_group", routing.choice.groups, KeyKind::count);
  key("topk_group", routing.choice.kept_groups, KeyKind::count);
}

/// The other keys whose values are members.
void each_key(const HuggingFaceFamily& family, auto& config, auto&& key) {
  const bool gelu = family.defaults.gelu;
  key(gelu ? "hidden_activation" : "hidden_act", Json(gelu ? "gelu_pytorch_tanh" : "silu"));
  if (!family.defaults.qkv_bias) key("attention_bias", Json(false));  // else another bias is meant
  key("mlp_bias", Json(false));
  key("vocab_size", config.vocabulary, KeyKind::required);
  key("hidden_size", config.features, KeyKind::required);
  key("num_hidden_layers", config.layers, KeyKind::required);
  key("num_attention_heads", config.heads, KeyKind::required);
  key("num_key_value_heads", config.kv_heads, KeyKind::or_null);
  key("intermediate_size", config.hidden, KeyKind::required);
  key("max_position_embeddings", config.context);
  key("rms_norm_eps", config.epsilon);
  key("tie_word_embeddings", config.tied);
  key("initializer_range", config.deviation);
  if (!config.latent) key("head_dim", config.head_dim);
  if (config.window_theta) key("rope_local_base_freq", *config.window_theta);
  if (!family.gemma()) return;
  key("query_pre_attn_scalar", config.query_scalar);
  if (family.defaults.attention_softcap > 0) {
    key("attn_logit_softcapping", config.attention_softcap, KeyKind::or_null);
  } else {
    key("attn_logit_softcapping", Json());  // Gemma 3 does not use it
  }
  key("final_logit_softcapping", config.logit_softcap, KeyKind::or_null);
}

/// Those of scaled rotary embeddings, except their type.
void each_scaling_key(auto& scaling, auto&& key) {
  key("factor", scaling.factor, KeyKind::required);
  if (scaling.rope_type == RopeType::linear) return;
  if (scaling.rope_type == RopeType::llama3) {
    key("low_freq_factor", scaling.low_freq_factor);
    key("high_freq_factor", scaling.high_freq_factor);
  } else {
    key("beta_slow", scaling.beta_slow);
    key("beta_fast", scaling.beta_fast);
    key("mscale", scaling.mscale, KeyKind::or_null);
    key("mscale_all_dim", scaling.mscale_all_dim, KeyKind::or_null);
  }
  key("original_max_position_embeddings", scaling.original_max_position_embeddings, KeyKind::required);
}

/// A number of at least 1; if it is absent, `otherwise`.
inline Index read_size(const JsonPart& config, const char* key, Index otherwise) {
  const JsonPart part = config[key];
  return part.null() ? otherwise : part.integer(1, std::numeric_limits<Index>::max());
}

/// The function that reads a key into its member.
inline auto key_reader(const JsonPart& config) {
  return [&config](const char* name, auto&& member, KeyKind kind = KeyKind::optional) {
    using T = std::remove_cvref_t<decltype(member)>;
    const JsonPart part = config[name];
    if constexpr (std::is_same_v<T, Json>) {
      config.must_be(name, member);
    } else {
      if (kind == KeyKind::or_null && config.json().contains(name)) member = T(0);
      if (part.null() && kind != KeyKind::required) return;
      if constexpr (std::is_same_v<T, bool>) {
        member = part.template get<bool>();
      } else if constexpr (std::is_same_v<T, double>) {
        member = part.positive_number();
      } else {
        member = part.integer(kind == KeyKind::count ? 0 : 1, std::numeric_limits<Index>::max());
      }
    }
  };
}
/// The function that writes a key.
inline auto key_writer(Json& json) {
  return [&json](const char* name, const auto& member, KeyKind kind = KeyKind::optional) {
    json[name] = member;
    if (kind == KeyKind::or_null && json[name] == 0) json[name] = nullptr;
  };
}

/// Reads all forms of rotary embeddings; if several are present they must agree. Layers with a window may have
/// their own.
void read_rope(const JsonPart& config, LlamaConfig& result);
/// The value of "rope_scaling".
Json rope_scaling_keys(const RopeScaling& scaling);

/// The sizes of latent attention, and head_dim, which has another meaning in the files of such models.
void read_latent(const JsonPart& config, LlamaConfig& result);
/// The reverse, for a configuration that has them.
void write_latent(const LlamaConfig& config, Json& json);

#ifdef SHARDWISE_LLM_BODIES

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
  scaling.rope_type = linear ? RopeType::linear : yarn ? RopeType::yarn : RopeType::llama3;
  if (yarn) rope.must_be("truncate", true);
  each_scaling_key(scaling, key_reader(rope));
  const auto check_order = [&](const char* low_key, double low, const char* high_key, double high) {
    if (low < high) return;
    rope.fail(low_key + (" is " + Json(low).dump()) + ", expected less than " + high_key + ", " +
              Json(high).dump());
  };
  if (yarn) check_order("beta_slow", scaling.beta_slow, "beta_fast", scaling.beta_fast);
  check_order("low_freq_factor", scaling.low_freq_factor, "high_freq_factor", scaling.high_freq_factor);
  return result;
}

SHARDWISE_INLINE void read_rope(const JsonPart& config, LlamaConfig& result) {
  config.must_be("partial_rotary_factor", 1);
  std::optional<double> theta;
  if (!config["rope_theta"].null()) theta = config["rope_theta"].positive_number();
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
  Json rope{{"rope_type", types[static_cast<std::size_t>(scaling.rope_type)]}};
  each_scaling_key(scaling, key_writer(rope));
  std::erase_if(rope.get_ref<Json::object_t&>(), [](const auto& key) { return key.second.is_null(); });
  return rope;
}

SHARDWISE_INLINE void read_latent(const JsonPart& config, LlamaConfig& result) {
  LatentSizes& sizes = result.latent.emplace();
  if (!config.json().contains("q_lora_rank")) config["q_lora_rank"].expected("a number or null");
  each_latent_key(sizes, key_reader(config));
  config.must_be("head_dim", sizes.rope_dim);
  const Index most = std::numeric_limits<Index>::max() - sizes.rope_dim;
  result.head_dim = config["qk_nope_head_dim"].integer(1, most) + sizes.rope_dim;
}
SHARDWISE_INLINE void write_latent(const LlamaConfig& config, Json& json) {
  each_latent_key(*config.latent, key_writer(json));
  json["head_dim"] = config.latent->rope_dim;
  json["qk_nope_head_dim"] = config.head_size() - config.latent->rope_dim;
}

SHARDWISE_INLINE void read_experts(const JsonPart& config, const HuggingFaceFamily& family,
                                   LlamaConfig& result) {
  if (!result.experts) return;
  MixtureOptions& mixture = *result.experts;
  Index shared = mixture.shared_hidden / mixture.hidden;
  each_expert_key(family, result, key_reader(config));
  if (family.mixtral()) mixture.hidden = result.hidden;
  if (family.deepseek()) {
    const JsonPart part = config["n_shared_experts"];
    if (!part.null()) shared = part.integer(0, std::numeric_limits<std::int32_t>::max());
    mixture.shared_hidden = shared * std::min(mixture.hidden, Index{1} << 31);
    if (!mixture.bias && mixture.routing.normalized && mixture.routing.scale != 1)
      config["norm_topk_prob"].expected("false, because routed_scaling_factor is not 1");
  }
  // As transformers, which otherwise does not compute the loss.
  if (config.get<bool>("output_router_logits", false)) {
    key_reader(config)("router_aux_loss_coef", result.balance);
  } else {
    result.balance = 0;
  }
}
SHARDWISE_INLINE void write_experts(Json& json, const HuggingFaceFamily& family, const LlamaConfig& config) {
  if (!config.experts) return;
  each_expert_key(family, config, key_writer(json));
  if (family.deepseek()) json["n_shared_experts"] = config.experts->shared_hidden / config.experts->hidden;
  if (config.balance > 0) json["router_aux_loss_coef"] = config.balance;
  if (config.balance > 0 || !family.deepseek()) json["output_router_logits"] = config.balance > 0;
}

#endif

}  // namespace shardwise::llm::detail
