// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Shared by the conversions between checkpoints of a Llama and Hugging Face's files: its tensors in both formats,
/// and the check whether a folder may be replaced.

#include <shardwise/checkpoint/manifest_file.hpp>
#include <shardwise/llm/models/llama/files.hpp>
#include <shardwise/llm/namespaces.hpp>
#include <shardwise/mesh/mesh.hpp>

namespace shardwise::llm::detail {

struct LlamaTensor {
  std::string name;            ///< in a checkpoint: "model.layers.0.attention.wq.weight"
  std::vector<Index> shape;    ///< in a checkpoint: [heads, head_dim, features]
  std::string hugging_name;    ///< "model.layers.0.self_attn.q_proj.weight"; of experts several, in braces
  std::vector<Index> hugging;  ///< its shape there: [heads * head_dim, features]
};

/// In the order of the model, which is created on a dry mesh, without memory.
inline std::vector<LlamaTensor> llama_tensors(const LlamaConfig& config) {
  using MeshType = Mesh<tp>;
  using PlanType = LlamaExpertParallel<LlamaTensorParallel<>, tp>;
  std::vector<LlamaTensor> tensors;
  Recorder recorder;
  Llama<MeshType, PlanType> model(MeshType(recorder, {1}), config);
  const auto name_of = hugging_face_names(config);
  for (const auto& [path, cell] : named_parameters_of(model)) {
    const std::vector<Index> shape = cell->stored.extents();
    std::string theirs = name_of(path);
    const auto count = std::ssize(expanded_names(theirs));
    tensors.push_back(
        {"model." + path, shape, std::move(theirs), hugging_face_shape(path, shape_of_blocks(shape, count))});
  }
  return tensors;
}

/// Whether weights can have this type in memory.
inline bool is_type_in_memory(StoredType type) {
  return convertible(StoredType::f32, type) && type != StoredType::f16;
}

/// Sets the type of the weights in a config.json, under the names that transformers 4 and 5 read.
inline void set_torch_type(Json& config, StoredType type) {
  if (!config.is_object()) return;  // reported as an error when it is read
  config["torch_dtype"] = *torch_name(type);
  if (config.contains("dtype")) config["dtype"] = config["torch_dtype"];
}

/// Throws `std::runtime_error` unless the model or the checkpoint in `folder` may be replaced by a conversion of
/// `source`.
inline void check_replaceable(const Path& folder, const Path& source, bool replace) {
  if (!replace) fail<std::runtime_error>({folder.string(), ": there already, and not empty"});
  const Path inner = whole_path(source), outer = whole_path(folder);
  if (std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end()) {
    fail<std::runtime_error>({folder.string(), ": cannot be replaced, for ", source.string(), " lies in it"});
  }
  const auto is_there = [&](const char* name) { return std::filesystem::is_regular_file(folder / name); };
  const bool holds_model = is_there("model.safetensors") || is_there("model.safetensors.index.json") ||
                           is_there("pytorch_model.bin");
  if (!holds_model && !holds_checkpoint(folder)) {
    fail<std::runtime_error>(
        {folder.string(), ": is not replaced, for it holds neither a model nor a checkpoint"});
  }
}

}  // namespace shardwise::llm::detail
