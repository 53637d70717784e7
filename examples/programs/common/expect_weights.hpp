// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checks that a folder's weights match its config.json, and those of a GGUF file its sizes.

#include <cstdio>

#include <shardwise/comm/environment.hpp>
#include <shardwise/llm/gguf/header.hpp>
#include <shardwise/llm/models/llama/config.hpp>

namespace tools {

namespace sw = shardwise;

/// Checks the table of tokens and two tensors of the last layer before memory is allocated for a model; loading
/// checks all. Throws `std::runtime_error`, with the file and the expectation. Says if adapters are not used.
inline void expect_weights(const std::filesystem::path& folder, const sw::llm::LlamaConfig& config) {
  const sw::Weights weights(folder, &sw::llm::gguf_format);
  const std::string last = "model.layers." + std::to_string(config.layers - 1) + ".";
  const auto expect = [&](const std::string& name, sw::Index rows, sw::Index columns) {
    const sw::Index shape[]{rows, columns};
    const std::string why = weights.problem(name, sw::DataType::f32, shape);
    const std::string sizes = sw::llm::is_gguf(folder) ? "the model's sizes" : "config.json";
    if (!why.empty()) throw std::runtime_error(sizes + " and the weights differ: " + why);
  };
  expect("model.embed_tokens.weight", config.vocabulary, config.features);
  expect(last + "self_attn.o_proj.weight", config.features, config.heads * config.value_size());
  if (!config.for_layer(config.layers - 1).experts)
    expect(last + "mlp.gate_proj.weight", config.hidden, config.features);
  const auto adapters = folder / "adapter_config.json";
  if (std::filesystem::exists(adapters) && sw::world().rank() == 0) {
    std::fprintf(stderr, "note: %s: the adapters are not applied, only the model beside them is read\n",
                 adapters.c_str());
  }
}

}  // namespace tools
