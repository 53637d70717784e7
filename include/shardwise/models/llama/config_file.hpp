// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A Llama's config.json, as transformers 4 and 5 write it, and the tokens that its texts begin and end with.
///
/// ```
/// const LlamaConfig config = read_llama_config("llama/config.json");
/// const LlamaTokens tokens = read_llama_tokens("llama/");
/// ```

#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <shardwise/io/json_file.hpp>
#include <shardwise/models/llama/config.hpp>
#include <shardwise/weights/safetensors_header.hpp>

namespace shardwise {

namespace detail {

/// Reads keys of a config.json. A key that is absent or null has the default; one of another kind is an error
/// that names file, key and value.
class ConfigReader {
 public:
  ConfigReader(const Json& json, std::string source) : json_(json), source_(std::move(source)) {
    if (!json.is_object()) throw std::runtime_error(source_ + ": expected an object");
  }

  bool has(const char* key) const { return json_.contains(key) && !json_.at(key).is_null(); }
  const Json& at(const char* key) const { return json_.at(key); }

  Index positive(const char* key) const {
    if (!has(key)) throw std::runtime_error(source_ + ": \"" + key + "\" is missing");
    return positive(key, 0);
  }
  Index positive(const char* key, Index otherwise) const {
    if (!has(key)) return otherwise;
    if (!is_integer(at(key), 1, std::numeric_limits<Index>::max())) fail(key, "a positive integer");
    return at(key).get<Index>();
  }
  double number(const char* key, double otherwise) const {
    if (!has(key)) return otherwise;
    if (!at(key).is_number() || !(at(key).get<double>() > 0)) fail(key, "a positive number");
    return at(key).get<double>();
  }
  bool flag(const char* key, bool otherwise) const {
    if (!has(key)) return otherwise;
    if (!at(key).is_boolean()) fail(key, "true or false");
    return at(key).get<bool>();
  }
  /// For what a model may say, but which only has one meaning here.
  void must_be(const char* key, const Json& only) const {
    if (has(key) && at(key) != only) fail(key, only.dump());
  }
  [[noreturn]] void fail(const char* key, const std::string& expected) const {
    throw std::runtime_error(source_ + ": \"" + key + "\" is " + excerpt(at(key)) + "; expected " + expected);
  }

 private:
  const Json& json_;
  std::string source_;
};

struct Rope {
  std::optional<double> theta;
  std::optional<RopeScaling> scaling;
};

/// Reads the object `key`: "rope_parameters" or, as it was before transformers 5, "rope_scaling".
inline Rope read_rope(const ConfigReader& config, const char* key, const std::string& source) {
  const std::string where = source + ": \"" + key + "\"";
  const ConfigReader rope(config.at(key), where);
  rope.must_be("partial_rotary_factor", 1);
  Rope result;
  if (rope.has("rope_theta")) result.theta = rope.number("rope_theta", 0);
  const char* type_key = rope.has("rope_type") ? "rope_type" : "type";
  if (!rope.has(type_key)) {
    // A theta alone is the default type; a scaling must say which one it is.
    if (result.theta && !rope.has("factor")) return result;
    throw std::runtime_error(where + ": \"rope_type\" is missing");
  }
  const Json& type = rope.at(type_key);
  if (type == "default") return result;
  if (type != "linear" && type != "llama3") rope.fail(type_key, "\"default\", \"linear\" or \"llama3\"");
  if (!rope.has("factor")) throw std::runtime_error(where + ": \"factor\" is missing");
  RopeScaling& scaling = result.scaling.emplace();
  scaling.factor = rope.number("factor", 1);
  scaling.rope_type = type == "linear" ? RopeType::linear : RopeType::llama3;
  if (type == "linear") return result;
  scaling.low_freq_factor = rope.number("low_freq_factor", scaling.low_freq_factor);
  scaling.high_freq_factor = rope.number("high_freq_factor", scaling.high_freq_factor);
  scaling.original_max_position_embeddings = rope.positive("original_max_position_embeddings");
  if (!(scaling.low_freq_factor < scaling.high_freq_factor)) {
    throw std::runtime_error(where + ": \"low_freq_factor\" is " + Json(scaling.low_freq_factor).dump() +
                             "; expected less than \"high_freq_factor\", " +
                             Json(scaling.high_freq_factor).dump());
  }
  return result;
}

/// Reads both forms; where both are there they must agree.
inline void read_rope(const ConfigReader& config, const std::string& source, LlamaConfig& result) {
  config.must_be("partial_rotary_factor", 1);
  std::optional<double> theta;
  if (config.has("rope_theta")) theta = config.number("rope_theta", 0);
  bool first = true;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(key)) continue;
    const Rope rope = read_rope(config, key, source);
    if (rope.theta && theta && *rope.theta != *theta) {
      throw std::runtime_error(source + ": \"rope_theta\" is " + Json(*theta).dump() + " and " +
                               Json(*rope.theta).dump() + "; expected one value");
    }
    if (!first && rope.scaling != result.scaling) config.fail(key, "what \"rope_scaling\" says");
    if (rope.theta) theta = rope.theta;
    result.scaling = rope.scaling;
    first = false;
  }
  result.theta = theta.value_or(result.theta);
}

/// Throws if the weights, in the widest type, have more bytes than an `Index` counts.
inline void check_size(const LlamaConfig& config, const std::string& source) {
  constexpr Index matrices = 16;  // of one size there are fewer: their sum does not overflow either
  const auto possible = [](Index count, Index rows, Index columns, Index factor) {
    const std::array<Index, 5> shape{matrices, count, rows, columns, factor};
    return stored_bytes(StoredType::f64, shape).has_value();
  };
  if (!possible(1, config.vocabulary, config.features, 1) ||
      !possible(config.layers, config.features, config.heads, config.head_size()) ||
      !possible(config.layers, config.features, config.hidden, 1)) {
    throw std::runtime_error(
        source + ": a model of these sizes has more bytes than are counted: \"vocab_size\" " +
        std::to_string(config.vocabulary) + ", \"hidden_size\" " + std::to_string(config.features) +
        ", \"num_hidden_layers\" " + std::to_string(config.layers) + ", \"intermediate_size\" " +
        std::to_string(config.hidden) + ", \"num_attention_heads\" " + std::to_string(config.heads) +
        " with \"head_dim\" " + std::to_string(config.head_size()));
  }
}

inline std::vector<std::int32_t> read_token_ids(const ConfigReader& config, const char* key) {
  if (!config.has(key)) return {};
  const Json& value = config.at(key);
  std::vector<std::int32_t> ids;
  for (const Json& id : value.is_array() ? value : Json::array({value})) {
    if (!is_integer(id, 0, std::numeric_limits<std::int32_t>::max())) {
      config.fail(key, "a token's number, a list of them, or null");
    }
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

}  // namespace detail

/// Reads a config.json. Throws `std::runtime_error`, naming file, key, value and what was expected, for what is
/// missing or wrong, and for models that `Llama` is not: with biases, with another activation. Rotary embeddings
/// are read from `rope_theta` and `rope_scaling`, or from `rope_parameters`.
inline LlamaConfig read_llama_config(const std::filesystem::path& path) {
  const Json json = read_json(path);
  const std::string source = path.string();
  const detail::ConfigReader config(json, source);
  config.must_be("model_type", "llama");
  config.must_be("hidden_act", "silu");
  config.must_be("attention_bias", false);
  config.must_be("mlp_bias", false);
  LlamaConfig result;
  result.vocabulary = config.positive("vocab_size");
  result.features = config.positive("hidden_size");
  result.layers = config.positive("num_hidden_layers");
  result.heads = config.positive("num_attention_heads");
  result.kv_heads = config.positive("num_key_value_heads", result.heads);
  result.head_dim = config.positive("head_dim", 0);
  result.hidden = config.positive("intermediate_size");
  result.context = config.positive("max_position_embeddings", result.context);
  result.epsilon = config.number("rms_norm_eps", 1e-6);
  detail::read_rope(config, source, result);
  result.tied = config.flag("tie_word_embeddings", false);
  result.deviation = config.number("initializer_range", result.deviation);
  try {
    result.checked();
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(source + ": " + error.what());
  }
  detail::check_size(result, source);
  return result;
}

/// The tokens around a text, by their numbers.
struct LlamaTokens {
  std::optional<std::int32_t> begin = {};  ///< stands before every text
  std::vector<std::int32_t> ends = {};  ///< with any of them a text is at its end; a chat model has several
};

/// Reads `bos_token_id` and `eos_token_id` from a folder's config.json. What generation_config.json says of
/// them, if that file is there, goes before. Absent and null mean none. Throws `std::runtime_error`, naming
/// file, key and value, for what are no numbers of tokens.
inline LlamaTokens read_llama_tokens(const std::filesystem::path& folder) {
  LlamaTokens tokens;
  auto read = [&](const std::filesystem::path& path) {
    const Json json = read_json(path);
    const detail::ConfigReader config(json, path.string());
    if (json.contains("bos_token_id")) {
      const auto ids = detail::read_token_ids(config, "bos_token_id");
      if (ids.size() > 1) config.fail("bos_token_id", "one token's number, or null");
      tokens.begin.reset();
      if (!ids.empty()) tokens.begin = ids.front();
    }
    if (json.contains("eos_token_id")) tokens.ends = detail::read_token_ids(config, "eos_token_id");
  };
  read(folder / "config.json");
  const auto generation = folder / "generation_config.json";
  if (std::filesystem::exists(generation)) read(generation);
  return tokens;
}

/// The text of a config.json, which transformers 4 and 5 read. `type` is that of the weights: "float32".
inline std::string llama_config_text(const LlamaConfig& config, const std::string& type,
                                     const LlamaTokens& tokens = {}) {
  nlohmann::ordered_json json = {
      {"architectures", {"LlamaForCausalLM"}},
      {"model_type", "llama"},
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
  };
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
