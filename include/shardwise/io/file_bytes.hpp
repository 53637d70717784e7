// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Files read whole.

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>

// Implementation details: not part of the interface.
namespace shardwise::detail {

/// Throws `std::runtime_error`, "PATH: cannot be read: why", also for a folder, and for what is neither file nor
/// folder.
inline std::string bytes_of_file(const std::filesystem::path& path) {
  auto fail = [&] {
    throw std::runtime_error(path.string() + ": cannot be read: " + std::generic_category().message(errno));
  };
  // To open a pipe would be to wait for who writes into it. (What a folder is, reading it tells.)
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_other(status)) {
    throw std::runtime_error(path.string() + ": cannot be read: not a regular file");
  }
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
  if (!file) fail();
  std::string bytes;
  std::array<char, 1 << 16> piece;
  while (const std::size_t count = std::fread(piece.data(), 1, piece.size(), file.get())) {
    bytes.append(piece.data(), count);
  }
  if (std::ferror(file.get()) != 0) fail();
  return bytes;
}

}  // namespace shardwise::detail
