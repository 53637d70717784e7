// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The checkpoints in the folder of a run, by name.

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <shardwise/io/file.hpp>

namespace tools {

namespace sw = shardwise;

inline bool is_unfinished(const std::filesystem::path& checkpoint) {
  return checkpoint.filename().string().find(sw::detail::temporary_mark) != std::string::npos;
}

/// In the order of the steps, including unfinished ones.
inline std::vector<std::filesystem::path> step_folders(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_directory() && entry.path().filename().string().starts_with("step-"))
      paths.push_back(entry.path());
  }
  std::ranges::sort(paths, {}, [](const std::filesystem::path& path) {
    const std::string name = path.filename().string();
    return std::pair(std::min(name.find(sw::detail::temporary_mark), name.size()), name);
  });
  return paths;
}

}  // namespace tools
