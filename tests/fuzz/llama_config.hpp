// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// config.json, and the tokens that it and generation_config.json name.

#include <memory>

#include <shardwise/llm/models/llama/config_file.hpp>

#include "target.hpp"

namespace fuzz {

/// An input is the text of both files. What is read is written, and must be read again as it is.
inline Target llama_config() {
  struct Place {
    Folder folder;
    MemoryFile memory;
  };
  const auto place = std::make_shared<Place>();
  place->folder.file("config.json", place->memory);
  place->folder.file("generation_config.json", place->memory);
  const auto changed = [](auto change) {
    shardwise::llm::LlamaConfig config;
    change(config);
    return shardwise::llm::llama_config_text(config, "float32", {.begin = 1, .ends = {2, 3}});
  };
  const auto of_family = [&](const char* type) {
    return changed([&](auto& c) {
      for (const shardwise::llm::HuggingFaceFamily& family : shardwise::llm::hugging_face_families) {
        if (type == std::string_view(family.type)) c = family.defaults;
      }
      c.kv_heads = 4;
      c.layers = 3;
    });
  };
  return {
      "llama_config",
      {changed([](auto&) {}), of_family("mistral"), of_family("qwen2"), of_family("qwen3"),
       of_family("gemma2"), of_family("gemma3_text"),
       changed([](auto& c) { c.scaling = {.rope_type = shardwise::llm::RopeType::llama3, .factor = 8}; }),
       changed([](auto& c) { c.scaling = {.rope_type = shardwise::llm::RopeType::linear, .factor = 2}; }),
       R"({"vocab_size":8,"hidden_size":4,"num_hidden_layers":1,"num_attention_heads":2,"intermediate_size":4,)"
       R"("rope_parameters":{"rope_theta":10000.0,"rope_type":"default"},"eos_token_id":[1,2],"head_dim":null})",
       R"({"vocab_size":1,"hidden_size":1,"num_hidden_layers":1,"num_attention_heads":2,"intermediate_size":1,"eos_token_id":[]})",
       R"({"vocab_size":1,"hidden_size":1,"num_hidden_layers":1,"num_attention_heads":1,"intermediate_size":1,)"
       R"("layer_types":[],"rope_scaling":{"rope_type":"yarn","factor":1,"original_max_position_embeddings":1},)"
       R"("max_position_embeddings":1,"bos_token_id":0,"eos_token_id":[0]})"},
      [place](std::string_view input) {
        const std::string path = (place->folder.path() / "config.json").string();
        place->memory.write(input);
        taken(place->folder.path().string(),
              [&] { shardwise::llm::read_llama_tokens(place->folder.path()); });
        taken(path, [&] {
          const std::string text =
              shardwise::llm::llama_config_text(shardwise::llm::read_llama_config(path), "float32");
          place->memory.write(text);
          require(
              shardwise::llm::llama_config_text(shardwise::llm::read_llama_config(path), "float32") == text,
              "a configuration comes back as it was");
        });
      }};
}

}  // namespace fuzz
