// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The tensors of a Llama, as checkpoints have them and as Hugging Face's files do.

#include <string>
#include <vector>

#include <shardwise/mesh/dry_mesh.hpp>
#include <shardwise/models/llama/files.hpp>

// Implementation details: not part of the interface.
namespace shardwise::detail {

struct LlamaTensor {
  std::string name;            ///< in a checkpoint: "model.layers.0.attention.wq.weight"
  std::vector<Index> shape;    ///< there: [heads, head_dim, features]
  std::string hugging_name;    ///< "model.layers.0.self_attn.q_proj.weight"
  std::vector<Index> hugging;  ///< the shape with that: [heads * head_dim, features]
};

/// In the order of the model, which is made dry: it has no memory.
inline std::vector<LlamaTensor> llama_tensors(const LlamaConfig& config) {
  using MeshType = DryMesh<tp>;
  std::vector<LlamaTensor> tensors;
  Recorder recorder;
  Llama<MeshType> model(MeshType(recorder, {1}), config);
  for_each_named_parameter(model, [&](std::string_view path, auto& parameter) {
    LlamaTensor tensor{"model." + std::string(path), {}, hugging_face_name(path), {}};
    tensor.shape.assign(parameter.shape().begin(), parameter.shape().end());
    tensor.hugging = tensor.shape;
    if (tensor.hugging.size() == 3) {  // heads and head_dim are one dimension there
      const auto heads = tensor.hugging.begin() + (path.ends_with("wo.weight") ? 1 : 0);
      *heads *= heads[1];
      tensor.hugging.erase(heads + 1);
    }
    tensors.push_back(std::move(tensor));
  });
  return tensors;
}

/// What PyTorch calls a type of floating-point numbers; nothing for other types.
inline std::optional<std::string> torch_name(StoredType type) {
  switch (type) {
    case StoredType::f64:
      return "float64";
    case StoredType::f32:
      return "float32";
    case StoredType::bf16:
      return "bfloat16";
    case StoredType::f16:
      return "float16";
    default:
      return std::nullopt;
  }
}

/// Says in a config.json which type the weights have, under the names that transformers 4 and 5 look for.
inline void set_torch_type(Json& config, StoredType type) {
  if (!config.is_object()) return;  // an error, which is told when it is read
  config["torch_dtype"] = *torch_name(type);
  if (config.contains("dtype")) config["dtype"] = config["torch_dtype"];
}

/// `count` elements as another type; `buffer` has them if they are not the same.
inline std::string_view converted_elements(StoredType from, const char* data, StoredType to, Index count,
                                           std::vector<char>& buffer) {
  const auto bytes = static_cast<std::size_t>(count * size_of(to));
  if (from == to) return {data, bytes};
  buffer.resize(bytes);
  convert(from, data, to, buffer.data(), count);
  return {buffer.data(), bytes};
}

}  // namespace shardwise::detail
