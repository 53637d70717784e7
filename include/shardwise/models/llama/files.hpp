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

#include <shardwise/models/llama/config_file.hpp>
#include <shardwise/models/llama/model.hpp>
#include <shardwise/weights/load_weights.hpp>
#include <shardwise/weights/save_weights.hpp>

namespace shardwise {

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
  const int inner = max_rank - block.rank + dim + 1;
  size[inner] *= size[inner - 1];
  begin[inner] = begin[inner - 1] * shape[inner];
  shape[inner] *= shape[inner - 1];
  for (int i = inner - 1; i > 0; --i) {
    size[i] = size[i - 1];
    begin[i] = begin[i - 1];
    shape[i] = shape[i - 1];
  }
  --block.rank;
}

}  // namespace detail

/// Writes config.json and the weights into a folder, as `save_weights` does, under Hugging Face's names and with
/// heads and head_dim as one dimension; `options.name_of` is not used. config.json gets the numbers of `tokens`,
/// or null. It is renamed right after the weights: a crash between the two leaves the new weights beside the old
/// config.json. A generation_config.json that is there stays.
template <class MeshType, class PlanType, class T>
Index save_llama(Llama<MeshType, PlanType, T>& model, const std::filesystem::path& folder,
                 const SaveOptions& options = {}, const LlamaTokens& tokens = {}) {
  const StoredType type = options.type.value_or(stored_as(data_type_of<T>()));
  const char* torch = type == StoredType::f64    ? "float64"
                      : type == StoredType::bf16 ? "bfloat16"
                      : type == StoredType::f16  ? "float16"
                                                 : "float32";
  auto collect = [&](auto& list) {
    if (folder.extension() == ".safetensors") {
      throw std::runtime_error(folder.string() + ": expected a folder, for the weights and config.json");
    }
    for_each_named_parameter(model, [&](std::string_view path, auto& parameter) {
      const NamedTensor named(hugging_face_name(path), parameter.stored());
      list.push_back(named.tensor());
      if (list.back().block.rank == 3) {
        detail::merge_dimensions(list.back().block, path.ends_with("wo.weight") ? 1 : 0);
      }
    });
  };
  return detail::write_together(detail::ranks_of_parameters(detail::real_parameters_of(model)), "save_llama",
                                folder, options, collect, llama_config_text(model.config(), torch, tokens));
}

}  // namespace shardwise
