// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The files besides tokenizer.json that define a model's texts: settings of the tokenizer, and the format of
/// dialogues.

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>

#include <shardwise/io/json.hpp>
#include <shardwise/io/new_folder.hpp>

namespace tools {

namespace sw = shardwise;

inline constexpr std::array text_files{"tokenizer_config.json", "special_tokens_map.json",
                                       "added_tokens.json",     "generation_config.json",
                                       "chat_template.jinja",   "tokenizer.model"};

/// The place of such a file: next to the model, or else next to the tokenizer, unless it belongs to the model
/// itself. Empty if there is none.
inline std::filesystem::path place_of_text(const std::filesystem::path& name,
                                           const std::filesystem::path& model,
                                           const std::filesystem::path& tokenizer) {
  if (!model.empty()) return model / name;
  return tokenizer.empty() || name == "generation_config.json" ? "" : tokenizer.parent_path() / name;
}

/// Whether a file's contents fit its name. Since a checkpoint may come from anywhere, files named in its notes are
/// copied only if they do.
inline bool is_text_file(const std::filesystem::path& file, const std::string& text) {
  if (file.extension() == ".model")
    return text.starts_with('\n');  // a list of tokens, as SentencePiece writes it
  if (file.extension() != ".json") return text.find("{{") != text.npos || text.find("{%") != text.npos;
  try {
    return sw::parse_json(text, "").is_object();
  } catch (const std::runtime_error&) {
    return false;
  }
}

/// Copies them to the folder to which a checkpoint with these notes is consolidated: those of the checkpoint's own folder,
/// or, if it has none, those of the places in its notes. Returns the folder in the notes that is gone, if any.
inline std::filesystem::path copy_texts(const std::filesystem::path& folder, const sw::Json& notes,
                                        const std::filesystem::path& checkpoint) {
  const auto note = [&](const char* key) {
    const auto found = notes.find(key);
    return found != notes.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  std::error_code ignored;  // a file that cannot be examined counts as missing
  const auto is_there = [&](const char* name) { return std::filesystem::exists(checkpoint / name, ignored); };
  const bool has_texts = is_there("tokenizer.json") || std::ranges::any_of(text_files, is_there);
  const std::string own_template = note("chat_template"),
                    from = has_texts ? checkpoint.string() : note("from");
  for (const std::filesystem::path name : text_files) {
    std::string text = name == "chat_template.jinja" ? own_template : "";
    const std::filesystem::path place = place_of_text(name, from, note("tokenizer"));
    if (text.empty() && std::filesystem::is_regular_file(place, ignored)) text = sw::read_text(place);
    if (is_text_file(name, text)) sw::write_file_atomically(folder / name, text);
  }
  const std::filesystem::path noted =
      from.empty() ? std::filesystem::path(note("tokenizer")).parent_path() : std::filesystem::path(from);
  return noted.empty() || std::filesystem::is_directory(noted, ignored) ? std::filesystem::path() : noted;
}

}  // namespace tools
