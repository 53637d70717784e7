// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The contents of a model's folder besides its weights, or of a GGUF file instead: the sizes, the tokenizer, the
/// template of dialogues. Of a GGUF file, the tokenizer and the template that lie beside it come first.

#include <array>

#include <shardwise/llm/gguf/tokenizer.hpp>
#include <shardwise/llm/models/llama/files.hpp>

#include "text_request.hpp"

namespace tools {

namespace sw = shardwise;

/// The folder of a model, in which a GGUF file may lie.
inline std::filesystem::path folder_of(const std::filesystem::path& weights) {
  return sw::llm::is_gguf(weights) ? std::filesystem::absolute(weights).parent_path() : weights;
}

/// The sizes of a model in a folder, or in a GGUF file. Throws as `read_llama_config`.
inline sw::llm::LlamaConfig config_of(const std::filesystem::path& weights) {
  return sw::llm::read_llama_config(sw::llm::is_gguf(weights) ? weights : weights / "config.json");
}

/// The model's tokenizer; bytes for a model of bytes; nothing for another model without one.
inline std::optional<sw::llm::Tokenizer> tokenizer_of(const std::filesystem::path& weights,
                                                      sw::Index vocabulary) {
  const std::filesystem::path folder = folder_of(weights);
  if (std::filesystem::exists(folder / "tokenizer.json")) return sw::llm::Tokenizer::from_folder(folder);
  if (sw::llm::is_gguf(weights)) {
    if (auto tokenizer = sw::llm::read_gguf_tokenizer(weights)) return tokenizer;
  }
  if (vocabulary != sw::llm::ByteTokenizer::vocabulary()) return std::nullopt;
  return sw::llm::is_gguf(weights) ? sw::llm::Tokenizer::bytes() : sw::llm::Tokenizer::from_folder(folder);
}

/// The model's ids that the tokenizer has: a table may have more rows, and a tokenizer may skip ids. Without a
/// tokenizer, all.
inline KnownIds known_ids(const std::optional<sw::llm::Tokenizer>& tokenizer, sw::Index vocabulary) {
  KnownIds known{vocabulary};
  if (!tokenizer) return known;
  known.end = std::min(vocabulary, tokenizer->vocabulary());
  for (std::int32_t id = 0; id < known.end; ++id) {
    try {
      tokenizer->decode(std::array{id});
    } catch (const std::invalid_argument&) {
      known.holes.push_back(id);
    }
  }
  return known;
}

/// The tokens that end a text.
inline std::vector<std::int32_t> ends_of(const std::filesystem::path& weights,
                                         const std::optional<sw::llm::Tokenizer>& tokenizer) {
  std::vector<std::int32_t> ends = sw::llm::read_llama_tokens(weights).ends;
  if (tokenizer && tokenizer->end_token()) ends.push_back(*tokenizer->end_token());
  return ends;
}

/// The template of dialogues, if the model has one.
inline std::optional<sw::llm::ChatTemplate> chat_template_of(const std::filesystem::path& weights) {
  auto chat = sw::llm::ChatTemplate::from_folder(folder_of(weights));
  return chat || !sw::llm::is_gguf(weights) ? chat : sw::llm::read_gguf_chat_template(weights);
}

}  // namespace tools
