// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Which file or folder a path names as a model.

#include <shardwise/llm/gguf/header.hpp>

namespace tools {

namespace sw = shardwise;

/// The one GGUF file of a folder without config.json; else the path. Throws `std::runtime_error` if there are several.
inline std::string model_in(const std::string& path) {
  std::error_code ignored;
  std::vector<std::filesystem::path> found;
  if (!std::filesystem::exists(std::filesystem::path(path) / "config.json", ignored)) {
    for (const auto& entry : std::filesystem::directory_iterator(path, ignored))
      if (sw::llm::is_gguf(entry.path())) found.push_back(entry.path());
  }
  if (found.size() > 1)
    throw std::runtime_error(path + ": no config.json, but " + std::to_string(found.size()) +
                             " GGUF files: name one, as " + std::ranges::min(found).string());
  return found.empty() ? path : found.front().string();
}

}  // namespace tools
