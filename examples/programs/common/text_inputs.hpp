// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The files that programs read besides weights: a model's tokenizer, and files of texts, which must be the same
/// on all ranks.

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <shardwise/guard/same_on_all_ranks.hpp>

#include "model_files.hpp"

namespace tools {

namespace sw = shardwise;

inline constexpr const char* no_tokenizer = "tokenizer.json is missing, and the model's tokens are not bytes";

/// Throws `std::runtime_error` unless the model knows all ids that the folder's tokenizer gave.
inline void check_tokens(std::span<const std::int32_t> ids, sw::Index vocabulary,
                         const std::filesystem::path& folder) {
  for (const std::int32_t id : ids) {
    if (id >= vocabulary)
      throw std::runtime_error(folder.string() + ": the tokenizer gives token " + std::to_string(id) +
                               ", but the model has " + std::to_string(vocabulary));
  }
}

/// The text of a file, the same on every rank. Collective; throws `std::runtime_error` for a file that cannot be read,
/// `std::invalid_argument` if ranks differ.
inline std::string read_same(const std::filesystem::path& path, const char* option) {
  const std::string text = sw::read_text(path);
  sw::require_same(sw::world(), {{path.string(), std::to_string(sw::Fingerprint().add(text).value())}},
                   "the files of " + std::string(option) + " differ");
  return text;
}

/// Calls f(line, place) for the lines of a file's text, except empty ones. `place` is "FILE:NUMBER".
void for_each_line(std::string_view rest, const std::string& file, auto f) {
  for (int number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") != line.npos) f(line, file + ":" + std::to_string(number));
  }
}

}  // namespace tools
