// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Tokens for training, in memory or in a mapped file, of which only the pages in use are read.
/// llm/data/open_token_corpus.hpp creates them.
///
/// ```
/// auto corpus = TokenCorpus::from_file("run/tokens.bin");
/// std::vector<std::int32_t> first(100);
/// corpus.copy(0, first);
/// ```
/// The file has a header of 72 bytes, then the tokens, each of 2 or 4 bytes, in the byte order of the machine that
/// wrote it. Opening it verifies the size and the checksums of the header and of the tokens.

#include <array>
#include <cstring>
#include <memory>

#include <shardwise/base/hash.hpp>
#include <shardwise/io/fingerprint.hpp>
#include <shardwise/io/mapped_file.hpp>
#include <shardwise/llm/namespaces.hpp>

namespace shardwise::llm::detail {

struct TokenFileHeader {
  static constexpr std::array<char, 8> magic_bytes{'S', 'W', 't', 'o', 'k', 'e', 'n', 's'};
  static constexpr std::uint32_t own_byte_order = 0x01020304;
  /// Increase it when the format changes, or when the same text and tokenizer would give other tokens.
  static constexpr std::uint32_t own_version = 1;

  std::array<char, 8> magic = magic_bytes;
  std::uint32_t byte_order = own_byte_order;
  std::uint32_t version = own_version;
  std::uint32_t token_bytes = 0;
  std::uint32_t unused = 0;
  std::uint64_t count = 0;            // number of tokens
  std::uint64_t vocabulary = 0;       // all tokens are below this
  std::uint64_t tokenizer = 0;        // fingerprint of the tokenizer
  std::uint64_t corpus = 0;           // fingerprint of the text
  std::uint64_t token_checksum = 0;   // fingerprint of the tokens' bytes
  std::uint64_t header_checksum = 0;  // fingerprint of the preceding bytes of this header

  std::uint64_t computed() const {
    return detail::fingerprint_of(
        {reinterpret_cast<const char*>(this), offsetof(TokenFileHeader, header_checksum)});
  }
};
static_assert(sizeof(TokenFileHeader) == 72 && std::is_trivially_copyable_v<TokenFileHeader>);

constexpr std::uint32_t width_of_tokens(std::uint64_t vocabulary) { return vocabulary <= 0x10000 ? 2 : 4; }

[[noreturn]] inline void throw_unusable(const Path& path, std::initializer_list<TextPart> why) {
  fail<std::runtime_error>({path.string(), ": ", text(why), "; remove it, and it is rebuilt"});
}

/// The header of a token file of `size` bytes that begins with `bytes`. Throws `std::runtime_error`, with the file
/// and the problem.
inline TokenFileHeader checked_header(const Path& path, std::string_view bytes, Index size) {
  TokenFileHeader header;
  constexpr auto head = static_cast<Index>(sizeof header);
  if (!bytes.empty()) std::memcpy(&header, bytes.data(), std::min(bytes.size(), sizeof header));
  const std::string_view magic(header.magic.data(), std::min(bytes.size(), header.magic.size()));
  if (magic.empty() ||
      !std::string_view(header.magic_bytes.data(), header.magic_bytes.size()).starts_with(magic)) {
    fail<std::runtime_error>({path.string(), ": not a file of tokens"});
  }
  if (size < head) {
    throw_unusable(path, {"truncated: it has ", size, " bytes, but the header alone ", head});
  }
  if (header.byte_order != header.own_byte_order) {
    throw_unusable(path, {"written in another byte order, or damaged"});
  }
  if (header.version != header.own_version) {
    throw_unusable(path,
                   {"of version ", header.version, ", but this program reads version ", header.own_version});
  }
  constexpr std::uint64_t most = std::uint64_t{1} << 31;
  const bool known_width =
      header.vocabulary <= most && header.token_bytes == width_of_tokens(header.vocabulary);
  if (header.header_checksum != header.computed() || !known_width)
    throw_unusable(path, {"its header is damaged"});
  const auto rest = static_cast<std::uint64_t>(size - head);
  if (rest % header.token_bytes != 0 || rest / header.token_bytes != header.count) {
    throw_unusable(path, {rest / header.token_bytes < header.count ? "truncated: " : "too long: ", rest,
                          " bytes of tokens, where ", header.count, " tokens of ", header.token_bytes,
                          " bytes are expected"});
  }
  return header;
}
inline TokenFileHeader read_token_header(const File& file) {
  std::array<char, sizeof(TokenFileHeader)> bytes;
  const Index size = file.size(), count = std::min(size, static_cast<Index>(bytes.size()));
  file.read(bytes.data(), count, 0);
  return checked_header(file.path(), {bytes.data(), static_cast<std::size_t>(count)}, size);
}

/// The greatest of `count` bytes of tokens.
inline std::uint64_t greatest_token(const char* bytes, std::size_t count, std::uint32_t token_bytes) {
  auto greatest = [&](auto token) {
    decltype(token) result = 0;
    for (std::size_t at = 0; at < count; at += sizeof token) {
      std::memcpy(&token, bytes + at, sizeof token);
      result = std::max(result, token);
    }
    return std::uint64_t{result};
  };
  return token_bytes == 2 ? greatest(std::uint16_t{}) : greatest(std::uint32_t{});
}

/// Reads a whole token file, and throws `std::runtime_error` unless it is exactly as written.
inline void check_tokens(const File& file) {
  const TokenFileHeader header = read_token_header(file);
  Fingerprint found;
  std::uint64_t greatest = 0;
  const Index end = file.size();
  std::vector<char> piece(
      static_cast<std::size_t>(std::min<Index>(end, 1 << 20)));  // a multiple of the token size
  for (auto at = static_cast<Index>(sizeof header); at < end;) {
    const Index count = std::min(end - at, static_cast<Index>(piece.size()));
    file.read(piece.data(), count, at);
    found.add({piece.data(), static_cast<std::size_t>(count)});
    greatest =
        std::max(greatest, greatest_token(piece.data(), static_cast<std::size_t>(count), header.token_bytes));
    at += count;
  }
  if (found.value() != header.token_checksum) throw_unusable(file.path(), {"its tokens are damaged"});
  if (header.count > 0 && greatest >= header.vocabulary) {
    throw_unusable(file.path(),
                   {"token ", greatest, " is there, but the vocabulary has ", header.vocabulary, " tokens"});
  }
}

/// Throws `std::runtime_error` for a token that is not in the vocabulary.
inline void check_token(std::int32_t token, Index vocabulary) {
  if (token >= 0 && token < vocabulary) return;
  fail<std::runtime_error>(
      {"the tokenizer gave ", token, ", but its vocabulary has ", vocabulary, " tokens"});
}

/// Produces the bytes of a token file after the header, and the numbers for the header.
class TokenPacker {
 public:
  TokenPacker(Index vocabulary, std::uint64_t tokenizer) {
    header_.vocabulary = static_cast<std::uint64_t>(vocabulary);
    header_.token_bytes = width_of_tokens(header_.vocabulary);
    header_.tokenizer = tokenizer;
  }

  /// The bytes of these tokens, valid until the next call. Throws `std::runtime_error` for an invalid token.
  std::string_view pack(std::span<const std::int32_t> tokens) {
    bytes_.resize(tokens.size() * header_.token_bytes);
    char* to = bytes_.data();
    for (const std::int32_t token : tokens) {
      check_token(token, static_cast<Index>(header_.vocabulary));
      const auto wide = static_cast<std::uint32_t>(token);
      const auto narrow = static_cast<std::uint16_t>(token);
      std::memcpy(to, header_.token_bytes == 2 ? static_cast<const void*>(&narrow) : &wide,
                  header_.token_bytes);
      to += header_.token_bytes;
    }
    header_.count += tokens.size();
    const std::string_view bytes(bytes_.data(), bytes_.size());
    sum_.add(bytes);
    return bytes;
  }

  /// The header for everything packed, from a text with this fingerprint.
  TokenFileHeader header(std::uint64_t corpus) const {
    TokenFileHeader header = header_;
    header.corpus = corpus;
    header.token_checksum = sum_.value();
    header.header_checksum = header.computed();
    return header;
  }

 private:
  TokenFileHeader header_;
  Fingerprint sum_;
  std::vector<char> bytes_;
};

}  // namespace shardwise::llm::detail

namespace shardwise::llm {

/// A sequence of tokens; copies share them. They take 2 bytes each, or 4 with a vocabulary above 65536. A file may
/// be replaced or removed while it is in use, but must not be changed in place: `copy` throws `std::runtime_error` if
/// it has shrunk, and the process ends if it shrinks meanwhile.
class TokenCorpus {
 public:
  /// Maps a token file, whatever text it was made from. Reads it once, and throws `std::runtime_error`, with the
  /// file and the reason, unless it is exactly as written.
  static TokenCorpus from_file(const std::filesystem::path& path) {
    detail::check_tokens(File(path, O_RDONLY));
    return {path, detail::MappedFile(path)};
  }

  /// Not part of the interface: a file whose tokens were already verified; the header is verified here.
  TokenCorpus(const std::filesystem::path& path, detail::MappedFile file)
      : file_(std::make_shared<const detail::MappedFile>(std::move(file))) {
    header_ = detail::checked_header(path, file_->bytes(), file_->size());
    tokens_ = file_->data() + sizeof header_;
  }
  /// Not part of the interface: tokens in memory, in the format of a file.
  TokenCorpus(const detail::TokenFileHeader& header, std::vector<char> bytes)
      : header_(header),
        memory_(std::make_shared<const std::vector<char>>(std::move(bytes))),
        tokens_(memory_->data()) {}

  Index size() const { return static_cast<Index>(header_.count); }
  /// All tokens are below this.
  Index vocabulary() const { return static_cast<Index>(header_.vocabulary); }
  /// A hash of tokens, text and tokenizer, and of the part of them: a resumed run can compare it.
  std::uint64_t fingerprint() const { return header_.header_checksum; }

  /// `count` tokens from `begin` on. Throws `std::out_of_range` if there are fewer.
  TokenCorpus part(Index begin, Index count) const {
    check_range(begin, count);
    if (count == size()) return *this;
    TokenCorpus part = *this;
    detail::Fnv1a place;
    for (const std::uint64_t number :
         {fingerprint(), static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(count)})
      place.add(number);
    part.header_.header_checksum = place.value;
    part.header_.count = static_cast<std::uint64_t>(count);
    part.tokens_ += begin * static_cast<Index>(header_.token_bytes);
    return part;
  }

  /// The token at a position in [0, size()), unchecked.
  std::int32_t operator[](Index position) const {
    return header_.token_bytes == 2 ? at<std::uint16_t>(position) : at<std::int32_t>(position);
  }

  /// Copies tokens from `begin` on. Throws `std::out_of_range` if there are too few.
  void copy(Index begin, std::span<std::int32_t> to) const {
    const auto count = static_cast<Index>(to.size());
    check_range(begin, count);
    if (count == 0) return;
    if (file_) file_->check_size();
    read_ahead(begin, count);
    for (Index i = 0; i < count; ++i) to[static_cast<std::size_t>(i)] = (*this)[begin + i];
  }

  /// Prefetches tokens: a later `copy` finds them in memory.
  void read_ahead(Index begin, Index count) const {
    if (!file_) return;
    const auto bytes = static_cast<Index>(header_.token_bytes);
    file_->will_need(tokens_ - file_->data() + begin * bytes, count * bytes);
  }

 private:
  void check_range(Index begin, Index count) const {
    if (begin >= 0 && begin <= size() && count >= 0 && count <= size() - begin) return;
    detail::fail<std::out_of_range>({"TokenCorpus: tokens ", begin, " to ", begin + count, " of ", size()});
  }

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

}  // namespace shardwise::llm
