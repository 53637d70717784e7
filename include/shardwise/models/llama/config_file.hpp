// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The config.json of a Llama, as written by transformers 4 and 5, or of a Mistral, which is a Llama with a window;
/// and the tokens with which its texts begin and end.
///
/// ```
/// const LlamaConfig config = read_llama_config("llama/config.json");
/// const LlamaTokens tokens = read_llama_tokens("llama/");
/// ```

#include <shardwise/base/bodies.hpp>
#include <shardwise/io/json.hpp>
#include <shardwise/models/llama/config.hpp>

namespace shardwise {

namespace detail {

/// A number of at least 1; if it is absent, `otherwise`, or an error.
inline Index read_size(const JsonPart& config, const char* key, std::optional<Index> otherwise = {}) {
  const JsonPart part = config[key];
  return otherwise && part.null() ? *otherwise : part.integer(1, std::numeric_limits<Index>::max());
}
inline double read_number(const JsonPart& config, const char* key, double otherwise) {
  const JsonPart part = config[key];
  return part.null() ? otherwise : part.positive_number();
}

struct Rope {
  std::optional<double> theta;
  std::optional<RopeScaling> scaling;
};

/// Reads "rope_parameters" or, before transformers 5, "rope_scaling".
inline Rope read_rope(const JsonPart& rope) {
  rope.must_be("partial_rotary_factor", 1);
  Rope result;
  if (!rope["rope_theta"].null()) result.theta = rope["rope_theta"].positive_number();
  const JsonPart type = rope[rope["rope_type"].null() && !rope["type"].null() ? "type" : "rope_type"];
  // With a theta alone the type is the default; a scaling must state its type.
  const bool plain = type.json() == "default" || (type.null() && result.theta && rope["factor"].null());
  const bool linear = type.json() == "linear";
  if (!plain && !linear && type.json() != "llama3") type.expected("\"default\", \"linear\" or \"llama3\"");
  rope.only({"rope_theta", "rope_type", "type", "factor", "low_freq_factor", "high_freq_factor",
             "original_max_position_embeddings", "partial_rotary_factor"});
  if (plain) return result;
  RopeScaling& scaling = result.scaling.emplace();
  scaling.factor = rope["factor"].positive_number();
  scaling.rope_type = linear ? RopeType::linear : RopeType::llama3;
  if (linear) return result;
  scaling.low_freq_factor = read_number(rope, "low_freq_factor", scaling.low_freq_factor);
  scaling.high_freq_factor = read_number(rope, "high_freq_factor", scaling.high_freq_factor);
  scaling.original_max_position_embeddings = read_size(rope, "original_max_position_embeddings");
  if (!(scaling.low_freq_factor < scaling.high_freq_factor)) {
    rope.fail("low_freq_factor is " + Json(scaling.low_freq_factor).dump() +
              ", expected less than high_freq_factor, " + Json(scaling.high_freq_factor).dump());
  }
  return result;
}

/// Reads both forms; if both are present they must agree.
inline void read_rope(const JsonPart& config, LlamaConfig& result) {
  config.must_be("partial_rotary_factor", 1);
  std::optional<double> theta;
  if (!config["rope_theta"].null()) theta = config["rope_theta"].positive_number();
  bool first = true;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const JsonPart part = config[key];
    if (part.null()) continue;
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

/// A token id, a list of them, or nothing.
inline std::vector<std::int32_t> read_token_ids(const JsonPart& part) {
  std::vector<std::int32_t> ids;
  auto add = [&](const JsonPart& id) { ids.push_back(id.get<std::int32_t>()); };
  if (part.json().is_array()) {
    part.for_each(add);
  } else if (!part.null()) {
    if (!part.json().is_number_integer()) part.expected("a token's number, a list of them, or null");
    add(part);
  }
  return ids;
}

/// A Mistral has a window of 4096 unless it states another one or null; a Llama has none.
inline std::optional<Index> read_window(const JsonPart& config, bool mistral) {
  const JsonPart window = config["sliding_window"];
  if (!window.null()) {
    if (!mistral) window.expected("null in a model of type \"llama\"");
    return window.integer(1, std::numeric_limits<Index>::max());
  }
  if (mistral && !config.json().contains("sliding_window")) return 4096;
  return {};
}

/// Rejects unknown keys whose names suggest that they change the computation, unless their values have no effect.
/// transformers ignores other unknown keys as well.
void check_keys(const JsonPart& config);

/// Errors do not include the file's name.
inline LlamaConfig llama_config_of(const Json& json) {
  const JsonPart config(json);
  const JsonPart type = config["model_type"];
  const bool mistral = type.json() == "mistral";
  if (!mistral && !type.null() && type.json() != "llama") type.expected("\"llama\" or \"mistral\"");
  check_keys(config);
  config.must_be("hidden_act", "silu");
  config.must_be("attention_bias", false);
  config.must_be("mlp_bias", false);
  LlamaConfig result;
  result.vocabulary = read_size(config, "vocab_size");
  result.features = read_size(config, "hidden_size");
  result.layers = read_size(config, "num_hidden_layers");
  result.heads = read_size(config, "num_attention_heads");
  result.kv_heads = read_size(config, "num_key_value_heads", mistral ? 8 : result.heads);
  result.head_dim = read_size(config, "head_dim", 0);
  result.hidden = read_size(config, "intermediate_size");
  result.context = read_size(config, "max_position_embeddings", mistral ? 131072 : result.context);
  result.window = read_window(config, mistral);
  result.epsilon = read_number(config, "rms_norm_eps", 1e-6);
  read_rope(config, result);
  result.tied = config.get<bool>("tie_word_embeddings", false);
  result.deviation = read_number(config, "initializer_range", result.deviation);
  return result.checked();
}

}  // namespace detail

/// Reads a config.json of type "llama", or "mistral", which has a window and other defaults. Throws
/// `std::runtime_error`, with file, key, value and expectation, if something is missing, invalid, or changes the
/// computation in a way that `Llama` does not support.
LlamaConfig read_llama_config(const std::filesystem::path& path);

/// The other contents of a config.json: the token ids around a text, and the remaining keys.
struct LlamaTokens {
  std::optional<std::int32_t> begin = {};  ///< precedes every text
  std::vector<std::int32_t> ends = {};     ///< any of them ends a text; a chat model has several
  Json rest = Json::object();  ///< all keys; those that are not rewritten are kept, such as `pad_token_id`
};

/// Reads `bos_token_id` and `eos_token_id` from a folder's generation_config.json if it has them, else from
/// config.json. Throws `std::runtime_error`, with file, key and value, for values that are not token ids.
LlamaTokens read_llama_tokens(const std::filesystem::path& folder);

/// The text of a config.json for transformers 4 and 5. `type` is that of the weights: "float32".
std::string llama_config_text(const LlamaConfig& config, const std::string& type,
                              const LlamaTokens& tokens = {});

}  // namespace shardwise

#ifdef SHARDWISE_BODIES
namespace shardwise {
namespace detail {

SHARDWISE_INLINE void check_keys(const JsonPart& config) {
  constexpr std::string_view read =
      " attention_bias mlp_bias num_attention_heads partial_rotary_factor rms_norm_eps rope_theta "
      "rope_scaling rope_parameters "
      "sliding_window ";
  config.for_each_member([&](const std::string& key, const JsonPart& part) {
    const auto has = [&](std::string_view word) { return key.find(word) != key.npos; };
    const double nothing = has("scal") || has("multiplier") ? 1 : 0;
    const bool harmless = part.json().empty() || part.json() == false || part.json() == nothing;
    if (harmless || key.starts_with('_') || key.starts_with("output_") || has("flash") ||
        has("implementation") || read.find(" " + key + " ") != read.npos)
      return;
    for (std::string_view words =
             "activation alibi attention attn bias clip compression drop expert layer_type logit moe "
             "multiplier norm pruned qk quant residual rope rotary scal sliding softcap";
         !words.empty();) {
      if (has(take_part(words, ' ')))
        config[key].expected("no such key: it changes what the model computes, and is not supported");
    }
  });
}

}  // namespace detail
}  // namespace shardwise

namespace shardwise {

SHARDWISE_INLINE LlamaConfig read_llama_config(const std::filesystem::path& path) {
  const Json json = read_json(path);
  return detail::naming(path.string(), [&] { return detail::llama_config_of(json); });
}

SHARDWISE_INLINE LlamaTokens read_llama_tokens(const std::filesystem::path& folder) {
  LlamaTokens tokens;
  auto read = [&](const std::filesystem::path& path) {
    const Json json = read_json(path);
    const detail::JsonPart config(json, path.string() + ": ");
    const detail::JsonPart begin = config["bos_token_id"], end = config["eos_token_id"];
    if (json.contains("bos_token_id")) {
      const auto ids = detail::read_token_ids(begin);
      if (ids.size() > 1) begin.expected("one token's number, or null");
      tokens.begin = ids.empty() ? std::nullopt : std::optional(ids.front());
    }
    if (json.contains("eos_token_id")) tokens.ends = detail::read_token_ids(end);
    return json;
  };
  tokens.rest = read(folder / "config.json");
  const auto generation = folder / "generation_config.json";
  if (std::filesystem::exists(generation)) read(generation);
  return tokens;
}

SHARDWISE_INLINE std::string llama_config_text(const LlamaConfig& config, const std::string& type,
                                               const LlamaTokens& tokens) {
  Json json = tokens.rest;
  if (json.contains("dtype")) json["dtype"] = type;
  json.update(Json{
      {"architectures", {config.window ? "MistralForCausalLM" : "LlamaForCausalLM"}},
      {"model_type", config.window ? "mistral" : "llama"},
      {"hidden_act", "silu"},
      {"vocab_size", config.vocabulary},
      {"hidden_size", config.features},
      {"num_hidden_layers", config.layers},
      {"num_attention_heads", config.heads},
      {"num_key_value_heads", config.kv_heads},
      {"head_dim", config.head_size()},
      {"intermediate_size", config.hidden},
      {"max_position_embeddings", config.context},
      {"rms_norm_eps", config.epsilon},
      {"rope_theta", config.theta},
      {"rope_scaling", nullptr},
      {"tie_word_embeddings", config.tied},
      {"initializer_range", config.deviation},
      {"attention_bias", false},
      {"mlp_bias", false},
      {"torch_dtype", type},
      {"bos_token_id", nullptr},
      {"eos_token_id", nullptr},
  });
  json.erase("rope_parameters");  // the older form of the keys that follow
  if (config.window) json["sliding_window"] = *config.window;
  if (tokens.begin) json["bos_token_id"] = *tokens.begin;
  if (tokens.ends.size() == 1) json["eos_token_id"] = tokens.ends.front();
  if (tokens.ends.size() > 1) json["eos_token_id"] = tokens.ends;
  if (const auto& scaling = config.scaling) {
    const bool llama3 = scaling->rope_type == RopeType::llama3;
    json["rope_scaling"] = {{"rope_type", llama3 ? "llama3" : "linear"}, {"factor", scaling->factor}};
    if (llama3) {
      json["rope_scaling"]["low_freq_factor"] = scaling->low_freq_factor;
      json["rope_scaling"]["high_freq_factor"] = scaling->high_freq_factor;
      json["rope_scaling"]["original_max_position_embeddings"] = scaling->original_max_position_embeddings;
    }
  }
  return json.dump(2) + "\n";
}

}  // namespace shardwise
#endif
