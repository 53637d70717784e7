// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The config.json of a Llama, or of another family that is a Llama with options, as written by transformers 4 and 5;
/// and the tokens with which its texts begin and end.
///
/// ```
/// const LlamaConfig config = read_llama_config("llama/config.json");
/// const LlamaTokens tokens = read_llama_tokens("llama/");
/// ```

#include <set>

#include <shardwise/llm/bodies.hpp>
#include <shardwise/llm/models/llama/config_keys.hpp>
#include <shardwise/llm/namespaces.hpp>

namespace shardwise::llm {

namespace detail {

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

/// The window, and which layers have it.
void read_window(const JsonPart& config, const HuggingFaceFamily& family, LlamaConfig& result);

/// Rejects unknown keys whose names suggest that they change the computation, unless their values have no effect.
/// transformers ignores other unknown keys as well.
void check_keys(const JsonPart& config, const HuggingFaceFamily& family);

}  // namespace detail

/// Reads a config.json of one of the `hugging_face_families`, or the sizes in a GGUF file of a Llama, a Qwen 2 or a
/// Qwen 3. Throws `std::runtime_error`, with file, key, value and expectation, if something is missing, invalid, or
/// changes the computation in a way that `Llama` does not support.
LlamaConfig read_llama_config(const std::filesystem::path& path);
/// The same for the contents of a config.json. Errors do not name a file.
LlamaConfig parse_llama_config(const Json& json);

/// The other contents of a config.json: the token ids around a text, and the remaining keys.
struct LlamaTokens {
  std::optional<std::int32_t> begin = {};  ///< precedes every text
  std::vector<std::int32_t> ends = {};     ///< any of them ends a text; a chat model has several
  Json rest = Json::object();  ///< all keys; those that are not rewritten are kept, such as `pad_token_id`
};

/// Reads `bos_token_id` and `eos_token_id` from a folder's generation_config.json if it has them, else from
/// config.json. Of a GGUF file, reads the ids of "bos", "eos", "eot" and "eom", and leaves `rest` empty. Throws
/// `std::runtime_error`, with file, key and value, for values that are not token ids.
LlamaTokens read_llama_tokens(const std::filesystem::path& path);

/// The text of a config.json for transformers 4 and 5. `type` is that of the weights: "float32". Throws
/// `std::invalid_argument` if no family has these options.
std::string llama_config_text(const LlamaConfig& config, const std::string& type,
                              const LlamaTokens& tokens = {});

}  // namespace shardwise::llm

#ifdef SHARDWISE_LLM_BODIES
#include <shardwise/llm/models/llama/gguf_config.hpp>

namespace shardwise::llm {

namespace detail {

SHARDWISE_INLINE void check_keys(const JsonPart& config, const HuggingFaceFamily& family) {
  std::set<std::string_view> known{"rope_theta",      "rope_scaling",
                                   "rope_parameters", "partial_rotary_factor",
                                   "sliding_window",  "layer_types"};
  const auto add = [&](const char* name, const auto&...) { known.insert(name); };
  each_key(family, family.defaults, add);
  if (family.qwen()) add("use_sliding_window");
  if (family.gemma()) add("sliding_window_pattern");
  if (family.defaults.latent) each_latent_key(*family.defaults.latent, add), add("qk_nope_head_dim");
  if (family.defaults.experts) each_expert_key(family, family.defaults, add);
  if (family.deepseek()) add("n_shared_experts");
  config.for_each_member([&](const std::string& key, const JsonPart& part) {
    const auto has = [&](std::string_view word) { return key.find(word) != key.npos; };
    const double nothing = has("scal") || has("multiplier") ? 1 : 0;
    const bool harmless = part.json().empty() || part.json() == false || part.json() == nothing;
    if (harmless || key.starts_with('_') || key.starts_with("output_") || has("flash") ||
        has("implementation") || known.contains(key))
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

SHARDWISE_INLINE void read_window(const JsonPart& config, const HuggingFaceFamily& family,
                                  LlamaConfig& result) {
  const JsonPart window = config["sliding_window"], used = config["use_sliding_window"],
                 types = config["layer_types"];
  const bool none = window.null() && config.json().contains("sliding_window");
  if (family.qwen()) {  // layers from max_window_layers on have the window
    const JsonPart part = config["max_window_layers"];
    const Index from = part.null() ? 28 : part.integer(0, std::numeric_limits<Index>::max());
    if (!used.null() && used.get<bool>() && from < result.layers && !none) {
      if (from > 0) part.expected("0, or at least the number of layers, " + std::to_string(result.layers));
      result.window = read_size(config, "sliding_window", 4096);
    }
  } else if (!result.window) {
    if (!window.null()) window.expected("null in a model of type \"" + std::string(family.type) + "\"");
  } else if (none && !family.gemma()) {
    result.window.reset();
  } else if (none || !window.null()) {
    result.window = window.integer(1, std::numeric_limits<Index>::max());
  }
  if (family.gemma()) {
    for (const char* key : {"_sliding_window_pattern", "sliding_window_pattern"}) {
      result.full_every = read_size(config, key, result.full_every);
    }
    if (types.json().is_array()) {
      const auto full = std::ranges::find(types.json(), Json("full_attention"));
      if (full != types.json().end()) {
        result.full_every = std::distance(types.json().begin(), full) + 1;
      } else if (result.full_every <= result.layers) {
        result.full_every = 0;
      }
    }
    if (family.defaults.full_every == 2 && result.full_every != 2) {
      config.fail("every second layer of a gemma2 must have \"full_attention\"");
    }
  }
  if (types.null()) return;
  types.must_have(static_cast<std::size_t>(result.layers));
  for (Index i = 0; i < result.layers; ++i) {
    const JsonPart type = types[static_cast<std::size_t>(i)];
    const char* expected = result.for_layer(i).window ? "sliding_attention" : "full_attention";
    if (type.json() != expected) type.expected("\"" + std::string(expected) + "\"");
  }
}

}  // namespace detail

SHARDWISE_INLINE LlamaConfig parse_llama_config(const Json& json) {
  const JsonPart config(json);
  const JsonPart type = config["model_type"];
  const auto* family = hugging_face_families.begin();
  if (!type.null()) {
    const auto names = [](const HuggingFaceFamily& each) { return Json(each.type); };
    family = std::ranges::find(hugging_face_families, type.json(), names);
    if (family == hugging_face_families.end()) {
      std::string known;
      for (const HuggingFaceFamily& each : hugging_face_families) {
        known += (known.empty() ? "\"" : ", \"") + std::string(each.type) + "\"";
      }
      type.expected(known);
    }
  }
  const JsonPart architectures = config["architectures"];
  for (const HuggingFaceFamily& other : hugging_face_families) {
    if (&other != family && architectures.json() == Json{other.architecture}) {
      architectures.expected("[\"" + std::string(family->architecture) + "\"], as model_type says");
    }
  }
  detail::check_keys(config, *family);
  LlamaConfig result = family->defaults;
  detail::each_key(*family, result, detail::key_reader(config));
  if (result.kv_heads == 0) result.kv_heads = result.heads;
  if (result.latent) detail::read_latent(config, result);
  detail::read_window(config, *family, result);
  detail::read_experts(config, *family, result);
  detail::read_rope(config, result);
  return result.checked();
}

SHARDWISE_INLINE LlamaConfig read_llama_config(const std::filesystem::path& path) {
  if (!is_gguf(path)) {
    const Json json = read_json(path);
    return prefix_errors(path.string(), [&] { return parse_llama_config(json); });
  }
  const detail::MappedFile file(path);
  return prefix_errors(path.string(), [&] {
    const Json json = detail::gguf_config(file.bytes());
    LlamaConfig config = parse_llama_config(json);
    config.interleaved = json["model_type"] == "llama";
    return config;
  });
}

SHARDWISE_INLINE LlamaTokens read_llama_tokens(const std::filesystem::path& path) {
  LlamaTokens tokens;
  if (is_gguf(path)) {
    const Json values = detail::gguf_values(path);
    const JsonPart all(values, path.string() + ": ");
    const auto id_of = [&](const char* name) {
      const JsonPart id = all[std::string("tokenizer.ggml.") + name + "_token_id"];
      return id.null() ? std::nullopt : std::optional(id.get<std::int32_t>());
    };
    tokens.begin = id_of("bos");
    for (const char* name : {"eos", "eot", "eom"}) {
      if (const auto id = id_of(name)) tokens.ends.push_back(*id);
    }
    return tokens;
  }
  auto read = [&](const std::filesystem::path& file) {
    const Json json = read_json(file);
    const JsonPart config(json, file.string() + ": ");
    const JsonPart begin = config["bos_token_id"], end = config["eos_token_id"];
    if (json.contains("bos_token_id")) {
      const auto ids = detail::read_token_ids(begin);
      if (ids.size() > 1) begin.expected("one token's number, or null");
      tokens.begin = ids.empty() ? std::nullopt : std::optional(ids.front());
    }
    if (json.contains("eos_token_id")) tokens.ends = detail::read_token_ids(end);
    return json;
  };
  tokens.rest = read(path / "config.json");
  const auto generation = path / "generation_config.json";
  if (std::filesystem::exists(generation)) read(generation);
  return tokens;
}

SHARDWISE_INLINE std::string llama_config_text(const LlamaConfig& given, const std::string& type,
                                               const LlamaTokens& tokens) {
  const HuggingFaceFamily& family = hugging_face_family(given);
  LlamaConfig config = given;
  config.head_dim = given.head_size();
  if (given.query_scalar == 0) config.query_scalar = static_cast<double>(config.head_dim);
  Json json = tokens.rest;
  if (json.contains("dtype")) json["dtype"] = type;
  json.update(Json{
      {"architectures", {family.architecture}},
      {"model_type", family.type},
      {"rope_theta", config.theta},
      {"rope_scaling", config.scaling ? detail::rope_scaling_keys(*config.scaling) : Json()},
      {"torch_dtype", type},
      {"bos_token_id", nullptr},
      {"eos_token_id", nullptr},
  });
  detail::each_key(family, config, detail::key_writer(json));
  if (config.latent) detail::write_latent(config, json);
  json.erase("rope_parameters");  // rope_theta and rope_scaling are its older form
  if (family.qwen()) {
    json["use_sliding_window"] = config.window.has_value();
    if (config.window) json["max_window_layers"] = 0;
  }
  if (config.window || !family.qwen()) json["sliding_window"] = config.window ? Json(*config.window) : Json();
  json.erase("layer_types");
  if (family.gemma()) {
    for (Index i = 0; i < config.layers; ++i) {
      json["layer_types"].push_back(config.for_layer(i).window ? "sliding_attention" : "full_attention");
    }
  }
  detail::write_experts(json, family, config);
  if (config.window_theta) {
    json.erase("sliding_window_pattern");
    if (config.full_every > 0) json["sliding_window_pattern"] = config.full_every;
  }
  if (tokens.begin) json["bos_token_id"] = *tokens.begin;
  if (tokens.ends.size() == 1) json["eos_token_id"] = tokens.ends.front();
  if (tokens.ends.size() > 1) json["eos_token_id"] = tokens.ends;
  return json.dump(2) + "\n";
}

}  // namespace shardwise::llm
#endif
