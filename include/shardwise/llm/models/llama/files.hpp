// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Llama models in Hugging Face's format: a folder with config.json and model.safetensors, or several files and
/// model.safetensors.index.json. Weights are also read from GGUF files (llm/gguf/header.hpp).
///
/// ```
/// Llama<Mesh<dp, tp>> model(mesh, read_llama_config("llama/config.json"));
/// load_llama(model, "llama/");
/// save_llama(model, "mine/");
/// ```

#include <shardwise/llm/gguf/header.hpp>
#include <shardwise/llm/models/adapter_files.hpp>
#include <shardwise/llm/models/llama/config_file.hpp>
#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/llm/namespaces.hpp>
#include <shardwise/module/stages.hpp>

namespace shardwise::llm {

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
      Part{"q_a", "q_a_proj"},
      Part{"q_a_norm", "q_a_layernorm"},
      Part{"kv_a", "kv_a_proj_with_mqa"},
      Part{"kv_a_norm", "kv_a_layernorm"},
      Part{"wq", "q_proj"},
      Part{"wk", "k_proj"},
      Part{"wv", "v_proj"},
      Part{"wo", "o_proj"},
      Part{"gate", "gate_proj"},
      Part{"up", "up_proj"},
      Part{"down", "down_proj"},
      Part{"attention_output_norm", "post_attention_layernorm"},
      Part{"mlp_output_norm", "post_feedforward_layernorm"},
  };
  std::string name;
  while (!path.empty()) {
    const std::string_view part = detail::take_part(path, '.');
    const auto* known = std::ranges::find(parts, part, &Part::first);
    if (!name.empty()) name += '.';
    name += known == parts.end() ? part : known->second;
  }
  return name;
}

namespace detail {

/// The end of the name of a bias by load, which is in `float` also beside `bfloat16`.
inline constexpr const char* bias_of_experts = "e_score_correction_bias";

/// The names of a layer's experts, which are several tensors in the files (see weights/brace_expansion.hpp).
inline std::string expert_names(std::string_view parameter, Index experts, bool mixtral) {
  const std::string all = "experts.{0.." + std::to_string(experts - 1) + "}.";
  if (parameter == "router") return mixtral ? "block_sparse_moe.gate.weight" : "mlp.gate.weight";
  if (parameter == "bias") return std::string("mlp.gate.") + bias_of_experts;
  if (parameter == "gate_up")
    return mixtral ? "block_sparse_moe." + all + "{w1,w3}.weight"
                   : "mlp." + all + "{gate_proj,up_proj}.weight";
  if (parameter == "down")
    return mixtral ? "block_sparse_moe." + all + "w2.weight" : "mlp." + all + "down_proj.weight";
  take_part(parameter, '.');
  return "mlp.shared_experts." + std::string(parameter) + "_proj.weight";
}

}  // namespace detail

/// The same for a model with this configuration: with norms of outputs, the norm before an MLP has another name, and so
/// have projections from latents; and experts are several tensors.
inline auto hugging_face_names(const LlamaConfig& config) {
  const Index experts = config.experts ? config.experts->experts : 0;
  const bool mixtral = experts > 0 && hugging_face_family(config).mixtral();
  return [=, output_norms = config.output_norms, latent = config.latent](std::string_view path) {
    constexpr std::string_view of_experts = ".experts.";
    if (const std::size_t at = path.find(of_experts); at != path.npos) {
      return hugging_face_name(path.substr(0, at)) + "." +
             detail::expert_names(path.substr(at + of_experts.size()), experts, mixtral);
    }
    std::string name = hugging_face_name(path);
    const auto replace = [&](std::string_view part, const char* other) {
      if (const auto at = name.find(part); at != name.npos) name.replace(at, part.size(), other);
    };
    if (output_norms && path.ends_with(".mlp_norm.weight")) {
      replace("post_attention_layernorm", "pre_feedforward_layernorm");
    }
    if (latent && latent->q_rank > 0) replace(".q_proj.", ".q_b_proj.");
    if (latent) replace(".k_proj.", ".kv_b_proj.");
    return name;
  };
}

namespace detail {

inline constexpr const char *head_name = "lm_head.weight", *table_name = "model.embed_tokens.weight";

/// Whether files may contain a tensor that the model lacks: the head of a tied model, if it equals the table; rotary
/// frequencies of old files and of GGUF, which are computed instead; and DeepSeek V3's layers for further tokens.
inline bool is_surplus(const LlamaConfig& config, std::string_view name) {
  if (config.experts && config.experts->bias &&
      name.starts_with("model.layers." + std::to_string(config.layers) + "."))
    return true;
  return (config.tied && name == head_name) || name.ends_with(".rotary_emb.inv_freq") ||
         (config.interleaved && name == "rope_freqs.weight");
}

/// Throws `std::runtime_error` if the rows of wq and wk have another order, a tied model's head differs from the table,
/// or numbers that choose experts are not finite, which losses need not show. Each rank checks some rows and layers.
void check_weights(const Path& path, const LlamaConfig& config, int rank = 0, int ranks = 1);

/// `model`: a Llama or, if it is divided among `ranks`, this rank's stages.
template <class Model>
Index load_llama(const Communicator& ranks, Model& model, const LlamaConfig& config,
                 const std::filesystem::path& path) {
  if (config.interleaved && !adapted_layers(model).empty())
    throw std::invalid_argument("load_llama: adapters are for Hugging Face's files, and not for GGUF");
  throw_on_all_ranks(ranks, "load_llama", [&] { check_weights(path, config, ranks.rank(), ranks.size()); });
  auto may_be_surplus = [&](std::string_view name) { return is_surplus(config, name); };
  return load_parameters(ranks, given_parameters_of(model), DividedModule<Model>, path,
                         {.name_of = hugging_face_names(config),
                          .may_be_surplus = may_be_surplus,
                          .other_format = &gguf_format});
}

}  // namespace detail

/// Loads weights by Hugging Face's names, as `load_weights` does, or from GGUF. For a tied model, a head that differs
/// from the table is an error; rotary frequencies in files are ignored. Adapters stay unchanged: see `load_adapters`.
template <class MeshType, class PlanType, class T>
Index load_llama(Llama<MeshType, PlanType, T>& model, const std::filesystem::path& path) {
  const Communicator ranks = detail::ranks_of_parameters(detail::named_parameters_of(model));
  return detail::load_llama(ranks, model, model.config(), path);
}
/// The same for a pipeline: each rank reads the tensors of its stages. A tensor is superfluous if no stage has it.
/// Collective over the job.
template <class Job, class MeshType, class PlanType, class T>
Index load_llama(const Job& job, Stages<Llama<MeshType, PlanType, T>>& stages,
                 const std::filesystem::path& path) {
  return detail::load_llama(job.communicator(), stages, stages.front().config(), path);
}

namespace detail {

/// PyTorch's name of a floating-point type; nothing for other types.
inline std::optional<std::string> torch_name(StoredType type) {
  if (type == StoredType::f64) return "float64";
  if (type == StoredType::f32) return "float32";
  if (type == StoredType::bf16) return "bfloat16";
  if (type == StoredType::f16) return "float16";
  return std::nullopt;
}

/// The shape of a parameter in Hugging Face's files, which merge heads and head_dim.
inline std::vector<Index> hugging_face_shape(std::string_view path, std::vector<Index> shape) {
  if (shape.size() != 3 && !(path.ends_with(".bias") && shape.size() == 2)) return shape;
  const auto heads = shape.begin() + (path.ends_with("wo.weight") ? 1 : 0);
  *heads *= heads[1];
  shape.erase(heads + 1);
  return shape;
}

/// Saves a Llama, or this rank's parts of one, in a folder.
template <class T, class Model>
Index save_llama(const Communicator& ranks, Model& model, const LlamaConfig& config,
                 const std::filesystem::path& folder, const SaveOptions& options, const LlamaTokens& tokens,
                 Writers writers) {
  const StoredType type = options.type.value_or(stored_as(data_type_of<T>()));
  const auto merged = merged_weights_of(model);
  const auto name_of = hugging_face_names(config);
  auto collect = [&](auto& list) {
    if (folder.extension() == ".safetensors") {
      fail<std::runtime_error>({folder.string(), ": expected a folder, for the weights and config.json"});
    }
    for (const detail::NamedParameter& parameter : given_parameters_of(model)) {
      const std::size_t first = list.size();
      add_written(list, name_of(parameter.name), parameter);
      if (const auto both = merged.find(parameter.cell); both != merged.end())
        list.back().tensor = both->second;
      for (WrittenTensor& tensor : std::span(list).subspan(first))
        tensor.shape = hugging_face_shape(parameter.name, std::move(tensor.shape));
    }
  };
  SaveOptions all = options;
  all.keep = bias_of_experts;
  all.beside["config.json"] = llama_config_text(config, torch_name(type).value_or("float32"), tokens);
  return write_together(ranks, "save_llama", folder, all, collect, writers);
}

}  // namespace detail

/// Writes config.json and the weights to a folder, as `save_weights` does, under Hugging Face's names, with heads
/// and head_dim merged; `options.name_of` is not used. config.json includes `tokens`. An existing
/// generation_config.json is kept. Weights are merged with their adapters, which needs memory for a copy of them.
template <class MeshType, class PlanType, class T>
Index save_llama(Llama<MeshType, PlanType, T>& model, const std::filesystem::path& folder,
                 const SaveOptions& options = {}, const LlamaTokens& tokens = {}) {
  const Communicator ranks = detail::ranks_of_parameters(detail::named_parameters_of(model));
  return detail::save_llama<T>(ranks, model, model.config(), folder, options, tokens,
                               detail::Writers::all_alike);
}
/// The same for a pipeline: each rank saves its stages. Collective over the job.
template <class Job, class MeshType, class PlanType, class T>
Index save_llama(const Job& job, Stages<Llama<MeshType, PlanType, T>>& stages,
                 const std::filesystem::path& folder, const SaveOptions& options = {},
                 const LlamaTokens& tokens = {}) {
  return detail::save_llama<T>(job.communicator(), stages, stages.front().config(), folder, options, tokens,
                               detail::Writers::each_its_part);
}

}  // namespace shardwise::llm

#ifdef SHARDWISE_LLM_BODIES
namespace shardwise::llm {
namespace detail {

SHARDWISE_INLINE void check_weights(const Path& path, const LlamaConfig& config, int rank, int ranks) {
  if (!is_gguf(path) && !config.interleaved && !config.tied && !config.experts) return;
  const Weights weights(path, &gguf_format);
  const std::string architecture = is_gguf(path) ? weights.files()[0].metadata().at("architecture") : "";
  if (is_gguf(path) && std::ranges::count(gguf_architectures, architecture) == 0)
    fail<std::runtime_error>({path.string(), ": general.architecture: it is \"", architecture,
                              "\", expected llama, qwen2 or qwen3"});
  const bool interleaved = architecture == "llama";
  if (config.interleaved != interleaved)
    fail<std::runtime_error>(
        {path.string(), ": LlamaConfig::interleaved must be ", interleaved ? "true" : "false"});
  if (!config.scaling && weights.contains("rope_freqs.weight"))
    fail<std::runtime_error>(
        {path.string(), ": rotary embeddings are scaled (rope_freqs.weight), expected LlamaConfig::scaling"});
  const auto name_of = hugging_face_names(config);
  for (Index layer = rank; config.experts && layer < config.layers; layer += ranks) {
    for (const char* part : {".experts.router", ".experts.bias"}) {
      const std::string name = name_of("layers." + std::to_string(layer) + part);
      if (!weights.contains(name)) continue;
      const Index count = weights.tensor(name).bytes / size_of(weights.tensor(name).type);
      std::vector<double> numbers(static_cast<std::size_t>(count));
      weights.read_block(name, View<double, 1>{numbers.data(), {count}, {0}, {count}});
      const auto bad = std::ranges::find_if(numbers, [](double x) { return !is_finite(x); });
      if (bad == numbers.end()) continue;
      fail<std::runtime_error>({weights.file_of(name).path().string(), ": tensor \"", name, "\": element ",
                                bad - numbers.begin(), " is ", *bad, ", expected a finite number"});
    }
  }
  if (!config.tied || !weights.contains(head_name) || !weights.contains(table_name)) return;
  for (Index row = rank; row < config.vocabulary; row += ranks) {
    const auto read = [&](const char* name) {
      std::vector<double> numbers(static_cast<std::size_t>(config.features));
      weights.read_block(
          name, View<double, 2>{
                    numbers.data(), {1, config.features}, {row, 0}, {config.vocabulary, config.features}});
      return numbers;
    };
    if (read(head_name) == read(table_name)) continue;
    fail<std::runtime_error>({weights.file_of(head_name).path().string(), ": tensor \"", head_name,
                              "\" differs from \"", table_name, "\" in row ", row,
                              ", but \"tie_word_embeddings\" is true: set it to false in config.json to keep "
                              "the head, or remove that tensor"});
  }
}

}  // namespace detail
}  // namespace shardwise::llm
#endif
