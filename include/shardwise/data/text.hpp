// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Text to learn from: files and folders, read whole, whose bytes are the tokens; and batches of it, which
/// are functions of a seed and a step, so that every rank knows the global batch.
///
/// ```
/// TextCorpus text({"include", "docs"});
/// TokenBatch batch = sample_batch(text, seed, step, 16, 128);
/// ```

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <range/v3/range/conversion.hpp>
#include <range/v3/view/iota.hpp>
#include <range/v3/view/join.hpp>
#include <range/v3/view/transform.hpp>

#include <shardwise/data/text_files.hpp>
#include <shardwise/data/uniform_draw.hpp>
#include <shardwise/layout/index.hpp>

namespace shardwise {

/// UTF-8 text; each byte is a token.
class TextCorpus {
 public:
  using Path = std::filesystem::path;
  static constexpr Index vocabulary = 256;

  /// Reads files, and all files below folders (in the order of their names, hidden ones left out). Throws
  /// `std::runtime_error` if a path is missing or unreadable, if a file is not text, or if there is no text
  /// at all.
  explicit TextCorpus(const std::vector<Path>& paths) {
    std::string names;
    for (const Path& path : paths) {
      names += (names.empty() ? "" : ", ") + path.string();
      for (const Path& file : detail::files_below(path)) text_ += detail::text_of_file(file);
    }
    if (text_.empty()) throw std::runtime_error("there is no text in " + names);
  }

  std::string_view text() const { return text_; }
  Index size() const { return static_cast<Index>(text_.size()); }
  std::int32_t operator[](Index position) const {
    return static_cast<unsigned char>(text_[static_cast<std::size_t>(position)]);
  }

 private:
  std::string text_;
};

/// Inputs and, one position further on, targets: each [sequences, length], row-major.
struct TokenBatch {
  std::vector<std::int32_t> inputs, targets;
};

/// Sequences that begin at random places, functions of `seed`, `step` and their number in the batch. `text` is a
/// `TextCorpus`, or a vector of tokens. Throws `std::invalid_argument` if it is not longer than a sequence.
template <class Text>
TokenBatch sample_batch(const Text& text, std::uint64_t seed, Index step, Index sequences, Index length) {
  namespace views = ranges::views;
  const auto size = static_cast<Index>(text.size());
  if (size <= length) {
    throw std::invalid_argument("the text has " + std::to_string(size) + " tokens, but a sequence needs " +
                                std::to_string(length + 1));
  }
  auto begin_of = [&](Index sequence) {
    const auto draw = static_cast<std::uint64_t>(step * sequences + sequence);
    return static_cast<Index>(detail::uniform_draw(seed, draw) * static_cast<double>(size - length));
  };
  auto token = [&](Index position) -> std::int32_t {
    return text[static_cast<decltype(text.size())>(position)];
  };
  auto tokens_from = [&](Index shift) {
    auto sequence_from = [&](Index begin) {
      return views::iota(begin, begin + length) |
             views::transform([&](Index position) { return token(position); });
    };
    return views::iota(Index{0}, sequences) |
           views::transform([&](Index sequence) { return sequence_from(begin_of(sequence) + shift); }) |
           views::join | ranges::to<std::vector>();
  };
  return {tokens_from(0), tokens_from(1)};
}

}  // namespace shardwise
