// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Text to learn from: files and folders, read whole, as tokens that are the text's distinct bytes; and
/// batches of it, which are functions of a seed and a step, so that every rank knows the global batch.
///
/// ```
/// TextCorpus text({"include", "docs"});
/// auto [inputs, targets] = sample_batch(text, seed, step, 16, 128);
/// ```

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <range/v3/algorithm/sort.hpp>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/iota.hpp>
#include <range/v3/view/join.hpp>
#include <range/v3/view/transform.hpp>

#include <shardwise/kernel/random.hpp>
#include <shardwise/layout/index.hpp>

namespace shardwise {

/// UTF-8 text as a sequence of tokens. Token k is the k-th of the distinct bytes that occur, in their order.
class TextCorpus {
 public:
  using Path = std::filesystem::path;

  /// Reads files, and all files below folders (in the order of their names, hidden ones left out). Throws
  /// `std::runtime_error` if a path is missing or unreadable, if a file is not text, or if there is no text
  /// at all.
  explicit TextCorpus(const std::vector<Path>& paths) {
    std::string names;
    for (const Path& path : paths) {
      names += (names.empty() ? "" : ", ") + path.string();
      for (const Path& file : files_below(path)) text_ += checked_text(file);
    }
    if (text_.empty()) throw std::runtime_error("there is no text in " + names);
    std::array<bool, 256> occurs{};
    for (char c : text_) occurs[static_cast<unsigned char>(c)] = true;
    for (std::size_t byte = 0; byte < occurs.size(); ++byte) {
      if (!occurs[byte]) continue;
      token_of_[byte] = static_cast<std::int32_t>(bytes_.size());
      bytes_ += static_cast<char>(byte);
    }
  }

  Index size() const { return static_cast<Index>(text_.size()); }
  Index vocabulary() const { return static_cast<Index>(bytes_.size()); }
  std::int32_t operator[](Index position) const {
    return token_of_[static_cast<unsigned char>(text_[static_cast<std::size_t>(position)])];
  }
  char character(std::int32_t token) const { return bytes_[static_cast<std::size_t>(token)]; }

  /// Throws `std::runtime_error` naming a character that does not occur in the corpus.
  std::vector<std::int32_t> encode(std::string_view text) const {
    std::vector<std::int32_t> tokens;
    for (char c : text) {
      const std::int32_t token = token_of_[static_cast<unsigned char>(c)];
      if (bytes_[static_cast<std::size_t>(token)] != c) {
        throw std::runtime_error(std::string("the character '") + c + "' does not occur in the text");
      }
      tokens.push_back(token);
    }
    return tokens;
  }

 private:
  static std::vector<Path> files_below(const Path& path) {
    namespace fs = std::filesystem;
    if (!fs::exists(path)) throw std::runtime_error(path.string() + ": no such file or folder");
    if (!fs::is_directory(path)) return {path};
    std::vector<Path> files;
    for (auto entry = fs::recursive_directory_iterator(path); entry != fs::recursive_directory_iterator();
         ++entry) {
      const bool hidden = entry->path().filename().string().starts_with('.');
      if (hidden && entry->is_directory()) entry.disable_recursion_pending();
      if (!hidden && entry->is_regular_file()) files.push_back(entry->path());
    }
    ranges::sort(files);
    return files;
  }

  static std::string checked_text(const Path& path) {
    std::ifstream file(path, std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (!file) throw std::runtime_error(path.string() + ": cannot be read");
    const std::size_t bad = first_non_text(text);
    if (bad == std::string::npos) return text;
    constexpr const char* digits = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(text[bad]);
    throw std::runtime_error(path.string() + ": not UTF-8 text: byte 0x" + digits[byte / 16] +
                             digits[byte % 16] + " at offset " + std::to_string(bad));
  }

  /// The offset of the first byte that is neither UTF-8 nor printable nor white space, or npos.
  static std::size_t first_non_text(std::string_view text) {
    for (std::size_t i = 0; i < text.size();) {
      const auto lead = static_cast<unsigned char>(text[i]);
      const std::size_t length = lead < 0x80   ? 1
                                 : lead < 0xc2 ? 0
                                 : lead < 0xe0 ? 2
                                 : lead < 0xf0 ? 3
                                 : lead < 0xf5 ? 4
                                               : 0;
      const bool control = lead < 0x20 && !(lead >= '\t' && lead <= '\r');
      if (length == 0 || control || lead == 0x7f || i + length > text.size()) return i;
      for (std::size_t k = 1; k < length; ++k) {
        if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return i;
      }
      i += length;
    }
    return std::string::npos;
  }

  std::string text_;
  std::string bytes_;  // the vocabulary
  std::array<std::int32_t, 256> token_of_{};
};

/// Inputs and, one position further on, targets: each [sequences, length], row-major.
struct TokenBatch {
  std::vector<std::int32_t> inputs, targets;
};

/// Sequences that begin at random places, functions of `seed`, `step` and their number in the batch. Throws
/// `std::invalid_argument` if the text is not longer than a sequence.
inline TokenBatch sample_batch(const TextCorpus& text, std::uint64_t seed, Index step, Index sequences,
                               Index length) {
  if (text.size() <= length) {
    throw std::invalid_argument("the text has " + std::to_string(text.size()) +
                                " characters, but a sequence needs " + std::to_string(length + 1));
  }
  namespace views = ranges::views;
  const auto places = static_cast<double>(text.size() - length);
  auto begin_of = [=](Index sequence) {
    const auto draw = static_cast<std::uint64_t>(step * sequences + sequence);
    return static_cast<Index>(kernel::uniform(seed, draw) * places);
  };
  auto tokens_from = [&](Index shift) {
    return views::iota(Index{0}, sequences) | views::transform([&, shift](Index sequence) {
             const Index begin = begin_of(sequence) + shift;
             return views::iota(begin, begin + length) | views::transform([&](Index at) { return text[at]; });
           }) |
           views::join | ranges::to<std::vector>();
  };
  return {tokens_from(0), tokens_from(1)};
}

}  // namespace shardwise
