// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Which file or folder a path names as a model.

#include <shardwise/llm/gguf/header.hpp>

namespace tools {

namespace sw = shardwise;

/// The GGUF files of a folder without safetensors.
inline std::vector<std::filesystem::path> gguf_files(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::vector<std::filesystem::path> found;
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"})
    if (std::filesystem::exists(folder / name, ignored)) return found;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    if (sw::llm::is_gguf(entry.path())) found.push_back(entry.path());
  return found;
}

/// The one GGUF file of a folder without safetensors; else the path. Throws `std::runtime_error` if there are several.
inline std::string model_in(const std::string& path) {
  const auto found = gguf_files(path);
  if (found.size() > 1)
    throw std::runtime_error(path + ": no model.safetensors, but " + std::to_string(found.size()) +
                             " GGUF files: name one, as " + std::ranges::min(found).string());
  return found.empty() ? path : found.front().string();
}

}  // namespace tools
