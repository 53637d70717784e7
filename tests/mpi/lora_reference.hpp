// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#pragma once

/// @file
/// A Llama with adapters, and the files that PyTorch's have (tests/reference/lora.py).

#include <shardwise/llm/models/adapter_files.hpp>

#include <filesystem>

#include "llama_reference.hpp"

namespace shardwise::testing {

/// Queries, values, the way out of attention and that of the MLP are adapted, all else is as given.
template <class KeyValue, class Norm, class Colwise, class Rowwise, int Rank = 3, int Alpha = 6>
using Adapted = PlanWith<
    Plan<Use<"tokens", Rowwise>,                //
         Use<"layers.*.attention_norm", Norm>,  //
         Use<"layers.*.attention.wq", Lora<Colwise, Rank, Alpha>>, Use<"layers.*.attention.wk", KeyValue>,
         Use<"layers.*.attention.wv", Lora<KeyValue, Rank, Alpha>>,
         Use<"layers.*.attention.wo", Lora<Rowwise, Rank, Alpha>>, Use<"layers.*.mlp_norm", Norm>,  //
         Use<"layers.*.mlp.gate", Colwise>, Use<"layers.*.mlp.up", Colwise>,                        //
         Use<"layers.*.mlp.down", Lora<Rowwise, Rank, Alpha>>, Use<"norm", Norm>,                   //
         Use<"head", Colwise>>,
    Frozen>;
using Tensors =
    Adapted<llm::KeyValueParallel<Split>, NoParallel, ColwiseParallel<Split>, RowwiseParallel<Split>>;
using Sequences = Adapted<llm::KeyValueParallel<Split>, SequenceParallel<Split>, ColwiseParallel<Split>,
                          RowwiseParallel<Split, output<Shard<1>>>>;

inline const auto references = std::filesystem::path(__FILE__).parent_path().parent_path() / "reference";
inline const llm::AdapterOptions as_peft{.name_of = llm::hugging_face_name, .base_model = "grouped"};

inline llm::LlamaConfig config() { return llm::read_llama_config(references / "grouped" / "config.json"); }

template <class Model>
void load(Model& model) {
  llm::load_llama(model, references / "grouped" / "model.safetensors");
  llm::load_adapters(model, references / "lora", as_peft);
}
template <class MeshType>
auto read_ids(const MeshType& mesh, const char* name) {
  return read_tensor<std::int64_t, 2, Shard<0>, Replicate, Replicate>(
      mesh, references / "lora" / "f64.safetensors", name);
}

}  // namespace shardwise::testing
