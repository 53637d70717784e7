// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The files that belong to a model's text, beside tokenizer.json: how a tokenizer is used, and how dialogues become text.

#include <array>
#include <filesystem>
#include <string>

#include <shardwise/io/json.hpp>
#include <shardwise/io/new_folder.hpp>

namespace tools {

namespace sw = shardwise;

inline constexpr std::array text_files{"tokenizer_config.json", "special_tokens_map.json",
                                       "added_tokens.json", "generation_config.json", "chat_template.jinja"};

/// Where one of them is to be found: with the model, or else with the tokenizer, but for what is of the model. Nowhere: empty.
inline std::filesystem::path place_of_text(const std::filesystem::path& name,
                                           const std::filesystem::path& model,
                                           const std::filesystem::path& tokenizer) {
  if (!model.empty()) return model / name;
  return tokenizer.empty() || name == "generation_config.json" ? "" : tokenizer.parent_path() / name;
}

/// Whether a file can be what its name says. A checkpoint comes from anywhere, so what its notes name is not copied without that.
inline bool is_text_file(const std::filesystem::path& file, const std::string& text) {
  if (file.extension() != ".json") return text.find("{{") != text.npos || text.find("{%") != text.npos;
  try {
    return sw::parse_json(text, "").is_object();
  } catch (const std::runtime_error&) {
    return false;
  }
}

/// Copies them to a folder that a checkpoint with such notes is consolidated to.
inline void copy_texts(const std::filesystem::path& folder, const sw::Json& notes) {
  const auto note = [&](const char* key) {
    const auto found = notes.find(key);
    return found != notes.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const std::string own_template = note("chat_template");
  for (const std::filesystem::path name : text_files) {
    std::string text = name == "chat_template.jinja" ? own_template : "";
    std::error_code ignored;  // what cannot be examined is as good as not there
    const std::filesystem::path place = place_of_text(name, note("from"), note("tokenizer"));
    if (text.empty() && std::filesystem::is_regular_file(place, ignored)) text = sw::detail::read_text(place);
    if (is_text_file(name, text)) sw::detail::write_new_file(folder / name, text);
  }
}

}  // namespace tools
