// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Text to tokens and back: bytes, or what a Hugging Face `tokenizer.json` with a byte-pair model says, such as
/// those of GPT-2 and Llama 1 to 3. What the file asks for and this header does not have is an error that names
/// it when the file is read.
///
/// ```
/// auto tokenizer = Tokenizer::from_file("llama/tokenizer.json");   // or Tokenizer::bytes()
/// auto ids = tokenizer.encode("Once upon a time");                 // begins with tokenizer.begin_token()
/// std::string text = tokenizer.decode(ids);
/// ```
///
/// It needs PCRE2: link `shardwise::tokenizer`. It is in no umbrella header, as JSON is dear to compile.

#include <shardwise/text/byte_tokenizer.hpp>
#include <shardwise/text/tokenizer/tokenizer_file.hpp>

namespace shardwise {

struct EncodeOptions {
  bool add_special_tokens = true;    ///< the tokens that the file puts around a text, such as <s>
  bool match_special_tokens = true;  ///< "<s>" in the text is that token; say no for text of strangers
};
struct DecodeOptions {
  bool skip_special_tokens = true;  ///< special tokens are no text
};

/// Turns text into tokens and tokens into text, as the `tokenizers` library of Hugging Face does with the same
/// file, but for what is said at `decode`. Copies share what they hold, and any threads may use it.
class Tokenizer {
 public:
  /// The bytes are the tokens: see `ByteTokenizer`.
  static Tokenizer bytes() { return {}; }

  /// Reads a `tokenizer.json` with a model of type BPE. Throws `std::runtime_error`, which names the file and
  /// the place in it, if it cannot be read, is wrong, or asks for a component that is not supported.
  static Tokenizer from_file(const std::filesystem::path& path) {
    return from_json(detail::read_text(path), path.string());
  }

  /// The same from the file's text; errors begin with `source`.
  static Tokenizer from_json(std::string_view text, const std::string& source = "tokenizer.json") {
    return detail::naming(source, [&] {
      const Json json = detail::json_of(text);
      Tokenizer result;
      result.file_ = std::make_shared<const detail::TokenizerFile>(detail::JsonPart(json));
      result.fingerprint_ = detail::fingerprint_of(text);
      return result;
    });
  }

  /// Throws `std::invalid_argument` for text that is not UTF-8 (from a file; bytes take any text), and for
  /// characters that the vocabulary cannot write. A file that asks for normal form C (NFC) takes only text that
  /// is certainly in it already: Latin, Greek, Cyrillic, Chinese, Japanese and Korean without combining marks.
  /// No file can make this endless: throws `std::length_error` if its steps make more than 16 times as many bytes
  /// of the text (and 64 KiB), and `std::runtime_error` if a regular expression takes too many steps.
  std::vector<std::int32_t> encode(std::string_view text, EncodeOptions options = {}) const {
    if (!file_) return ByteTokenizer{}.encode(text);
    return file_->encode(text, options.add_special_tokens, options.match_special_tokens);
  }

  /// Throws `std::invalid_argument` for an id that is no token. Tokens that are parts of characters give their
  /// bytes, so that the rest may follow later; Hugging Face gives U+FFFD. Limits are those of `encode`.
  std::string decode(std::span<const std::int32_t> ids, DecodeOptions options = {}) const {
    return file_ ? file_->decode(ids, options.skip_special_tokens) : ByteTokenizer{}.decode(ids);
  }

  /// All ids are less.
  Index vocabulary() const { return file_ ? file_->vocabulary() : ByteTokenizer::vocabulary(); }

  /// The token that the vocabulary writes so, such as "<|eot_id|>"; a byte has no such name.
  std::optional<std::int32_t> id_of(std::string_view token) const {
    return file_ ? file_->id_of(token) : std::nullopt;
  }

  /// What texts begin with, if the file puts a token before them.
  std::optional<std::int32_t> begin_token() const {
    if (!file_ || file_->around().before.empty()) return std::nullopt;
    return file_->around().before.front();
  }

  /// What texts end with: the token that the file puts after them, or else the one that Llama 3, Llama 1 and 2,
  /// and GPT-2 call so, for the file does not say.
  std::optional<std::int32_t> end_token() const {
    if (!file_) return std::nullopt;
    if (!file_->around().after.empty()) return file_->around().after.front();
    for (const char* name : {"<|end_of_text|>", "</s>", "<|endoftext|>"}) {
      if (const auto id = id_of(name)) return id;
    }
    return std::nullopt;
  }

  /// A number that differs between tokenizers: of the file's bytes.
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  Tokenizer() = default;

  std::shared_ptr<const detail::TokenizerFile> file_;  // null: bytes
  std::uint64_t fingerprint_ = ByteTokenizer::fingerprint();
};

}  // namespace shardwise
