// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The documents of a corpus (text files), and their tokens, concatenated.

#include <shardwise/llm/data/token_corpus.hpp>
#include <shardwise/llm/namespaces.hpp>
#include <shardwise/llm/text/utf8.hpp>

namespace shardwise::llm {

/// An encoder of text: `Tokenizer`, `ByteTokenizer`, or a user's type whose `fingerprint()` changes whenever its
/// tokens may change. A `TokenStream` uses a copy in another thread, and encodes text in pieces: if `encode` adds
/// tokens before or after a text, the type needs `encode_part(text, begins, ends)` too, which adds them only where the
/// whole text begins or ends. Without it, each piece has them.
template <class T>
concept TextEncoder = requires(const T& tokenizer, std::string_view text) {
  { tokenizer.encode(text) } -> std::same_as<std::vector<std::int32_t>>;
  { tokenizer.vocabulary() } -> std::convertible_to<Index>;
  { tokenizer.end_token() } -> std::convertible_to<std::optional<std::int32_t>>;
  { tokenizer.fingerprint() } -> std::convertible_to<std::uint64_t>;
};

namespace detail {

/// The path itself if it is a file; otherwise all files below the folder, sorted by name, without hidden ones and
/// pictures.
/// Throws `std::runtime_error`, or a class derived from it, for a path that is missing or cannot be listed.
inline std::vector<std::filesystem::path> files_below(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  if (!fs::exists(path)) fail<std::runtime_error>({path.string(), ": no such file or folder"});
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (auto entry = fs::recursive_directory_iterator(path); entry != fs::end(entry); ++entry) {
    const bool hidden = entry->path().filename().string().starts_with('.');
    if (hidden && entry->is_directory()) entry.disable_recursion_pending();
    std::error_code error;  // otherwise the next increment would throw an error without the path
    if (!hidden && entry->is_directory()) fs::directory_iterator(entry->path(), error);
    if (error) fail<std::runtime_error>({entry->path().string(), ": ", error.message()});
    constexpr std::string_view pictures[] = {".png", ".jpg", ".jpeg", ".gif", ".webp"};
    const bool picture =
        std::ranges::find(pictures, entry->path().extension().string()) != std::end(pictures);
    if (!hidden && !picture && entry->is_regular_file()) files.push_back(entry->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Throws `std::runtime_error`, "PATH: not UTF-8 text: byte 0xed at offset 2", for other bytes. The text begins at
/// `offset` of the file.
inline void check_text(const std::filesystem::path& path, std::string_view text, Index offset = 0) {
  const std::size_t bad = first_non_text(text);
  if (bad == text.size()) return;
  constexpr std::string_view digits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(text[bad]);
  fail<std::runtime_error>({path.string(), ": not UTF-8 text: byte 0x", digits[byte / 16], digits[byte % 16],
                            " at offset ", offset + static_cast<Index>(bad)});
}
inline std::string text_of_file(const std::filesystem::path& path) {
  std::string text = read_text(path);
  check_text(path, text);
  return text;
}

struct Document {
  std::filesystem::path path;
  std::string name;  // relative to the given folder, so that the folder may move
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

/// Adds name and contents; times are ignored, because an edit may preserve them.
inline void add_document(Fingerprint& corpus, const Document& document, std::string_view text) {
  corpus.add(std::uint64_t{document.name.size()})
      .add(document.name)
      .add(std::uint64_t{text.size()})
      .add(text);
}

inline std::uint64_t corpus_fingerprint(const std::vector<Document>& documents) {
  Fingerprint corpus;
  for (const Document& document : documents) add_document(corpus, document, read_text(document.path));
  return corpus.value();
}

/// The tokens of a file's text, or of a part of it, which may have its beginning and its end. Throws
/// `std::runtime_error`, with the file's name.
template <TextEncoder Encoder>
std::vector<std::int32_t> tokens_of(const std::filesystem::path& path, std::string_view text,
                                    const Encoder& tokenizer, bool begins = true, bool ends = true) {
  auto tokens = prefix_errors(path.string() + ": cannot be tokenised", [&] {
    const FileWork here("tokenizes", path.native());  // other ranks may wait for it
    if constexpr (requires { tokenizer.encode_part(text, begins, ends); }) {
      return tokenizer.encode_part(text, begins, ends);
    } else {
      return tokenizer.encode(text);
    }
  });
  const std::optional<std::int32_t> end = tokenizer.end_token();
  if (ends && end && (tokens.empty() || tokens.back() != *end)) tokens.push_back(*end);
  return tokens;
}

/// Calls take(bytes of tokens) for each document that is not empty, and returns their common header, with the
/// fingerprint of exactly the text that was tokenised. Holds one document at a time. Throws `std::runtime_error`,
/// with the file's name.
template <TextEncoder Encoder, class Take>
TokenFileHeader tokenise(const std::vector<Document>& documents, const Encoder& tokenizer, Take take) {
  TokenPacker packer(tokenizer.vocabulary(), tokenizer.fingerprint());
  Fingerprint corpus;
  for (const Document& document : documents) {
    const std::string text = text_of_file(document.path);
    add_document(corpus, document, text);
    if (text.empty()) continue;
    take(packer.pack(tokens_of(document.path, text, tokenizer)));
  }
  return packer.header(corpus.value());
}

}  // namespace detail
}  // namespace shardwise::llm
