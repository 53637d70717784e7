// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The pictures of the documentation: drawn anew with SHARDWISE_DRAW set, else compared.

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace shardwise::testing {

/// How often `text` contains a part.
inline int count(const std::string& text, const std::string& part) {
  int number = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++number;
  return number;
}

inline void check_picture(const std::string& name, const std::string& svg) {
  const std::filesystem::path path = std::filesystem::path(SHARDWISE_PICTURES) / (name + ".svg");
  if (std::getenv("SHARDWISE_DRAW") != nullptr) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << svg;
  }
  std::stringstream file;
  file << std::ifstream(path, std::ios::binary).rdbuf();
  INFO("not up to date: build the target pictures, and look at ", path.string());
  CHECK(file.str() == svg);
}

}  // namespace shardwise::testing
