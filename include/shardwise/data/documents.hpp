// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The documents of a corpus, which are files of text, and their tokens, one document after another.

#include <optional>

#include <shardwise/data/token_corpus.hpp>
#include <shardwise/text/utf8.hpp>

namespace shardwise {

/// What makes tokens of text: `Tokenizer`, `ByteTokenizer`, or a type of the caller's, whose `fingerprint()` is
/// another number whenever its tokens may be others.
template <class T>
concept TextEncoder = requires(const T& tokenizer, std::string_view text) {
  { tokenizer.encode(text) } -> std::same_as<std::vector<std::int32_t>>;
  { tokenizer.vocabulary() } -> std::convertible_to<Index>;
  { tokenizer.end_token() } -> std::convertible_to<std::optional<std::int32_t>>;
  { tokenizer.fingerprint() } -> std::convertible_to<std::uint64_t>;
};

namespace detail {

/// A file itself, or all files below a folder, in the order of their names and without hidden ones. Throws
/// `std::runtime_error`, or what is derived from it, for a path that is missing or cannot be listed.
inline std::vector<std::filesystem::path> files_below(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  if (!fs::exists(path)) fail<std::runtime_error>({path.string(), ": no such file or folder"});
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (auto entry = fs::recursive_directory_iterator(path); entry != fs::end(entry); ++entry) {
    const bool hidden = entry->path().filename().string().starts_with('.');
    if (hidden && entry->is_directory()) entry.disable_recursion_pending();
    std::error_code error;  // what cannot be listed would be an error of the next step, without a name
    if (!hidden && entry->is_directory()) fs::directory_iterator(entry->path(), error);
    if (error) fail<std::runtime_error>({entry->path().string(), ": ", error.message()});
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
  fail<std::runtime_error>(
      {path.string(), ": not UTF-8 text: byte 0x", digits[byte / 16], digits[byte % 16], " at offset ", bad});
}

struct Document {
  std::filesystem::path path;
  std::string name;  // below the folder that was asked for, so that a folder may move
};

inline std::vector<Document> documents_of(const std::vector<std::filesystem::path>& paths) {
  std::vector<Document> documents;
  for (const auto& path : paths) {
    for (const auto& file : files_below(path)) {
      const auto name = file == path ? file.filename() : file.lexically_relative(path);
      documents.push_back({file, name.generic_string()});
    }
  }
  return documents;
}

/// Of names and contents; times say nothing, as an edit may keep them.
inline void add_document(Fingerprint& corpus, const Document& document, std::string_view text) {
  corpus.add(std::uint64_t{document.name.size()})
      .add(document.name)
      .add(std::uint64_t{text.size()})
      .add(text);
}

inline std::uint64_t fingerprint_of(const std::vector<Document>& documents) {
  Fingerprint corpus;
  for (const Document& document : documents) add_document(corpus, document, read_text(document.path));
  return corpus.value();
}

/// Calls take(bytes of tokens) for each document that is not empty, and returns the header of all of them, with the
/// fingerprint of the very text that was tokenised. Holds one document at a time. Throws `std::runtime_error`, which
/// names the file.
template <TextEncoder Encoder, class Take>
TokenFileHeader tokenise(const std::vector<Document>& documents, const Encoder& tokenizer, Take take) {
  const std::optional<std::int32_t> end = tokenizer.end_token();
  TokenPacker packer(tokenizer.vocabulary(), tokenizer.fingerprint());
  Fingerprint corpus;
  for (const Document& document : documents) {
    const std::string text = text_of_file(document.path);
    add_document(corpus, document, text);
    if (text.empty()) continue;
    auto tokens = naming(document.path.string() + ": cannot be tokenised", [&] {
      const FileWork here("tokenizes", document.path.native());  // other ranks may wait for it
      return tokenizer.encode(text);
    });
    if (end && (tokens.empty() || tokens.back() != *end)) tokens.push_back(*end);
    take(packer.pack(tokens));
  }
  return packer.header(corpus.value());
}

}  // namespace detail
}  // namespace shardwise
