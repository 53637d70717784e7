// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Tokens to learn from: in memory, or in a file that is mapped, of which only the pages that are used are read.
/// See data/open_token_corpus.hpp for how they are made.
///
/// ```
/// auto corpus = TokenCorpus::from_file("run/tokens.bin");
/// std::vector<std::int32_t> first(100);
/// corpus.copy(0, first);
/// ```

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <shardwise/data/token_file.hpp>
#include <shardwise/io/large_files.hpp>
#include <shardwise/layout/index.hpp>

namespace shardwise {

/// A row of tokens; copies share them. They take 2 bytes each, or 4 where a vocabulary has more than 65536. A file
/// may be replaced or removed while it is in use, but not be made shorter in place: that ends the process.
class TokenCorpus {
 public:
  /// Maps a token file, whatever text it was made from. Reads it all once, and throws `std::runtime_error`, which
  /// names the file and the reason, if it is not just as it was written.
  static TokenCorpus from_file(const std::filesystem::path& path) {
    detail::check_tokens(detail::File(path, O_RDONLY));
    return {path, detail::MappedFile(path)};
  }

  /// Not part of the interface: of a file whose tokens somebody has checked; its header is checked here.
  TokenCorpus(const std::filesystem::path& path, detail::MappedFile file)
      : file_(std::make_shared<const detail::MappedFile>(std::move(file))) {
    const std::string_view bytes(file_->data(), static_cast<std::size_t>(file_->size()));
    header_ = detail::checked_header(path, bytes, file_->size());
    tokens_ = file_->data() + sizeof header_;
  }
  /// Not part of the interface: of tokens in memory, as a file would have them.
  TokenCorpus(const detail::TokenFileHeader& header, std::vector<char> bytes)
      : header_(header),
        memory_(std::make_shared<const std::vector<char>>(std::move(bytes))),
        tokens_(memory_->data()) {}

  Index size() const { return static_cast<Index>(header_.count); }
  /// All tokens are less.
  Index vocabulary() const { return static_cast<Index>(header_.vocabulary); }
  /// A number that differs between corpora: of tokens, text and tokenizer. A run that goes on can compare it.
  std::uint64_t fingerprint() const { return header_.header_checksum; }

  /// The token at a position in [0, size()), which is not checked.
  std::int32_t operator[](Index position) const {
    return header_.token_bytes == 2 ? at<std::uint16_t>(position) : at<std::int32_t>(position);
  }

  /// Copies the tokens from `begin` on. Throws `std::out_of_range` if there are not so many.
  void copy(Index begin, std::span<std::int32_t> to) const {
    const auto count = static_cast<Index>(to.size());
    if (begin < 0 || begin > size() || count > size() - begin) {
      throw std::out_of_range("TokenCorpus: tokens " + std::to_string(begin) + " to " +
                              std::to_string(begin + count) + " of " + std::to_string(size()));
    }
    if (count == 0) return;
    if (file_) {
      const auto bytes = static_cast<Index>(header_.token_bytes);
      file_->will_need(static_cast<Index>(sizeof header_) + begin * bytes, count * bytes);
    }
    for (Index i = 0; i < count; ++i) to[static_cast<std::size_t>(i)] = (*this)[begin + i];
  }

 private:
  template <class Stored>
  std::int32_t at(Index position) const {
    Stored token;
    std::memcpy(&token, tokens_ + position * static_cast<Index>(sizeof token), sizeof token);
    return static_cast<std::int32_t>(token);
  }

  detail::TokenFileHeader header_;
  std::shared_ptr<const detail::MappedFile> file_;  // null: in memory
  std::shared_ptr<const std::vector<char>> memory_;
  const char* tokens_ = nullptr;
};

}  // namespace shardwise
