// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The checkpoints in the folder of a run, by name.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <shardwise/io/file.hpp>

namespace tools {

namespace sw = shardwise;

/// Whether `Checkpointer::set_aside_damaged` has renamed it.
inline bool is_set_aside(const std::filesystem::path& folder) {
  return folder.filename().string().find(".damaged") != std::string::npos;
}

/// In the order of the steps, including unfinished ones and those that are set aside.
inline std::vector<std::filesystem::path> step_folders(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_directory() && entry.path().filename().string().starts_with("step-"))
      paths.push_back(entry.path());
  }
  std::ranges::sort(paths, {}, [](const std::filesystem::path& path) {
    const std::string name = path.filename().string();
    return std::pair(std::strtoll(name.c_str() + std::strlen("step-"), nullptr, 10), name);
  });
  return paths;
}

}  // namespace tools
