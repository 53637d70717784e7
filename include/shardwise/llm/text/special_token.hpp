// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Special tokens from the files that accompany a tokenizer.json.

#include <optional>

#include <shardwise/io/json.hpp>
#include <shardwise/llm/namespaces.hpp>

namespace shardwise::llm::detail {

/// The text of a token such as "eos_token", from tokenizer_config.json, or else special_tokens_map.json; written as
/// "</s>" or as {"content": "</s>", …}.
inline std::optional<std::string> special_token(const std::filesystem::path& folder, const char* name) {
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const auto path = folder / file;
    if (folder.empty() || !std::filesystem::exists(path)) continue;
    const Json json = read_json(path);
    const JsonPart token = JsonPart(json, path.string() + ": ")[name];
    if (!token.null()) return (token.json().is_object() ? token["content"] : token).get<std::string>();
  }
  return std::nullopt;
}

}  // namespace shardwise::llm::detail
