// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What is text, and which files below a path are read as such.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <shardwise/io/file.hpp>
#include <shardwise/text/utf8.hpp>

namespace shardwise {

/// The offset, from `begin` on, where the first bytes are that are no UTF-8 character (surrogates and overlong
/// forms are none), or a control character that is not white space; the text's size if there is none.
inline std::size_t first_non_text(std::string_view text, std::size_t begin = 0) {
  for (std::size_t i = begin; i < text.size();) {
    const auto [character, length] = detail::character_at(text, i);
    const bool white_space = character >= '\t' && character <= '\r';
    const bool control = (character < 0x20 && !white_space) || character == 0x7f;
    if (length == 0 || control) return i;
    i += length;
  }
  return text.size();
}

namespace detail {

/// A file itself, or all files below a folder, in the order of their names and without hidden ones. Throws
/// `std::runtime_error`, or what is derived from it, for a path that is missing or cannot be listed.
inline std::vector<std::filesystem::path> files_below(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  if (!fs::exists(path)) throw std::runtime_error(path.string() + ": no such file or folder");
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (auto entry = fs::recursive_directory_iterator(path); entry != fs::end(entry); ++entry) {
    const bool hidden = entry->path().filename().string().starts_with('.');
    if (hidden && entry->is_directory()) entry.disable_recursion_pending();
    if (!hidden && entry->is_regular_file()) files.push_back(entry->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// A file's whole text. Throws `std::runtime_error`, "PATH: not UTF-8 text: byte 0xed at offset 2", unless it is text.
inline std::string text_of_file(const std::filesystem::path& path) {
  std::string text = read_text(path);
  const std::size_t bad = first_non_text(text);
  if (bad == text.size()) return text;
  constexpr std::string_view digits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(text[bad]);
  throw std::runtime_error(path.string() + ": not UTF-8 text: byte 0x" + digits[byte / 16] +
                           digits[byte % 16] + " at offset " + std::to_string(bad));
}

}  // namespace detail
}  // namespace shardwise
