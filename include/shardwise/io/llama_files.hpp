// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Llama models in Hugging Face's form: a folder with config.json and model.safetensors, or several files and
/// model.safetensors.index.json.
///
/// ```
/// Llama<Mesh<dp, tp>> model(mesh, read_llama_config("llama/config.json"));
/// load_llama(model, "llama/");
/// save_llama(model, "mine/");
/// ```

#include <array>

#include <shardwise/io/load_weights.hpp>
#include <shardwise/io/save_weights.hpp>
#include <shardwise/nn/llama.hpp>

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
    if (!at(key).is_number_integer() || at(key).get<Index>() < 1) fail(key, "a positive integer");
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
    throw std::runtime_error(source_ + ": \"" + key + "\" is " + at(key).dump() + "; expected " + expected);
  }

 private:
  const Json& json_;
  std::string source_;
};

inline std::optional<RopeScaling> read_rope_scaling(const ConfigReader& config, const std::string& source) {
  if (!config.has("rope_scaling")) return std::nullopt;
  const std::string where = source + ": \"rope_scaling\"";
  const ConfigReader scaling(config.at("rope_scaling"), where);
  const char* key = scaling.has("rope_type") ? "rope_type" : "type";
  if (!scaling.has(key)) throw std::runtime_error(where + ": \"rope_type\" is missing");
  const Json& type = scaling.at(key);
  if (type == "default") return std::nullopt;
  if (type != "linear" && type != "llama3") scaling.fail(key, "\"default\", \"linear\" or \"llama3\"");
  if (!scaling.has("factor")) throw std::runtime_error(where + ": \"factor\" is missing");
  RopeScaling result{.factor = scaling.number("factor", 1)};
  result.rope_type = type == "linear" ? RopeType::linear : RopeType::llama3;
  if (type == "linear") return result;
  result.low_freq_factor = scaling.number("low_freq_factor", result.low_freq_factor);
  result.high_freq_factor = scaling.number("high_freq_factor", result.high_freq_factor);
  result.original_max_position_embeddings = scaling.positive("original_max_position_embeddings");
  return result;
}

}  // namespace detail

/// Reads a config.json. Throws `std::runtime_error`, naming file, key, value and what was expected, for what is
/// missing or wrong, and for models that `Llama` is not: with biases, with another activation.
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
  result.theta = config.number("rope_theta", result.theta);
  result.scaling = detail::read_rope_scaling(config, source);
  result.tied = config.flag("tie_word_embeddings", false);
  result.deviation = config.number("initializer_range", result.deviation);
  try {
    result.checked();
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(source + ": " + error.what());
  }
  return result;
}

/// The text of a config.json. `type` is that of the weights: "float32".
inline std::string llama_config_text(const LlamaConfig& config, const std::string& type) {
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
  };
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

/// Hugging Face's name for a parameter of a `Llama`: "layers.0.attention.wq.weight" is
/// "model.layers.0.self_attn.q_proj.weight".
inline std::string hugging_face_name(std::string_view path) {
  using Part = std::pair<std::string_view, std::string_view>;
  constexpr std::array parts{
      Part{"tokens", "model.embed_tokens"},
      Part{"layers", "model.layers"},
      Part{"norm", "model.norm"},
      Part{"head", "lm_head"},
      Part{"attention_norm", "input_layernorm"},
      Part{"mlp_norm", "post_attention_layernorm"},
      Part{"attention", "self_attn"},
      Part{"wq", "q_proj"},
      Part{"wk", "k_proj"},
      Part{"wv", "v_proj"},
      Part{"wo", "o_proj"},
      Part{"gate", "gate_proj"},
      Part{"up", "up_proj"},
      Part{"down", "down_proj"},
  };
  std::string name;
  while (true) {
    const auto end = path.find('.');
    std::string_view part = path.substr(0, end);
    for (const auto& [ours, theirs] : parts) {
      if (part == ours) {
        part = theirs;
        break;
      }
    }
    name += part;
    if (end == path.npos) return name;
    name += '.';
    path.remove_prefix(end + 1);
  }
}

/// Loads weights by Hugging Face's names, as `load_weights` does. A tied model ignores a head in the file;
/// rotary frequencies, which old files have, are computed anyway.
template <class MeshType, class PlanType, class T>
Index load_llama(Llama<MeshType, PlanType, T>& model, const std::filesystem::path& path) {
  const bool tied = model.config().tied;
  return load_weights(model, path,
                      {.name_of = hugging_face_name, .may_be_surplus = [tied](std::string_view name) {
                         return (tied && name == "lm_head.weight") || name.ends_with(".rotary_emb.inv_freq");
                       }});
}

namespace detail {

/// Makes one of dimensions `dim` and `dim + 1`, of which the latter is whole on every rank.
inline void merge_dimensions(UntypedBlock<const char>& block, int dim) {
  auto& [data, size, begin, shape] = block.extents;
  const auto inner = static_cast<std::size_t>(max_rank - block.rank + dim + 1);
  size[inner] *= size[inner - 1];
  begin[inner] = begin[inner - 1] * shape[inner];
  shape[inner] *= shape[inner - 1];
  for (std::size_t i = inner - 1; i > 0; --i) {
    size[i] = size[i - 1];
    begin[i] = begin[i - 1];
    shape[i] = shape[i - 1];
  }
  --block.rank;
}

}  // namespace detail

/// Writes config.json and the weights into a folder, as `save_weights` does, under Hugging Face's names and with
/// heads and head_dim as one dimension; `options.name_of` is not used.
template <class MeshType, class PlanType, class T>
Index save_llama(Llama<MeshType, PlanType, T>& model, const std::filesystem::path& folder,
                 const SaveOptions& options = {}) {
  const Communicator ranks = detail::ranks_of_module(model);
  const Index bytes = detail::write_together(ranks, "save_llama", folder, options, [&](auto& list) {
    for_each_named_parameter(model, [&](std::string_view path, auto& parameter) {
      const NamedTensor named(hugging_face_name(path), parameter.value());
      list.push_back(named.tensor());
      if (list.back().block.rank == 3) {
        detail::merge_dimensions(list.back().block, path.ends_with("wo.weight") ? 1 : 0);
      }
    });
  });
  const StoredType type = options.type.value_or(stored_as(data_type_of<T>()));
  const char* torch = type == StoredType::f64    ? "float64"
                      : type == StoredType::bf16 ? "bfloat16"
                      : type == StoredType::f16  ? "float16"
                                                 : "float32";
  detail::Problems problems;
  if (ranks.rank() == 0) {
    problems.guard(
        [&] { write_file_atomically(folder / "config.json", llama_config_text(model.config(), torch)); });
  }
  problems.throw_together(ranks, "save_llama");
  return bytes;
}

}  // namespace shardwise
