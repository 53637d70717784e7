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
/// It needs PCRE2 and utf8proc: link `shardwise::tokenizer`. It is in no umbrella header, as JSON is dear to compile.

#include <shardwise/text/byte_tokenizer.hpp>
#include <shardwise/text/special_token.hpp>
#include <shardwise/text/tokenizer/tokenizer_file.hpp>

namespace shardwise {

struct EncodeOptions {
  bool add_special_tokens = true;    ///< the tokens that the file puts around a text, such as <s>
  bool match_special_tokens = true;  ///< "<s>" in the text is that token; say no for text of strangers
  std::span<const std::size_t> ordinary = {};  ///< in their order, bytes of the text where it is none
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
      result.around_ = result.file_->around();
      result.fingerprint_ = detail::fingerprint_of(text);
      return result;
    });
  }

  /// The tokenizer of a model's folder: `file`, or its tokenizer.json, or bytes. Here it is decided what texts begin and end
  /// with, in training, evaluation and generation. They begin with what the tokenizer puts before them: the post_processor, unless
  /// `add_bos_token` of tokenizer_config.json says otherwise (`add_eos_token` of the end alike), whatever `bos_token_id` is. They
  /// end with `eos_token_id` of generation_config.json or config.json, its first; else with `eos_token` of tokenizer_config.json or
  /// special_tokens_map.json; else as `end_token` says. Throws `std::runtime_error`, which names the file.
  static Tokenizer from_folder(const std::filesystem::path& folder, std::filesystem::path file = {}) {
    if (file.empty() && std::filesystem::exists(folder / "tokenizer.json")) file = folder / "tokenizer.json";
    Tokenizer result = file.empty() ? bytes() : from_file(file);
    auto token = [&](const char* key) {
      const auto text = detail::special_token(folder, key);
      return text ? result.id_of(*text) : std::nullopt;
    };
    auto read = [&](const char* name, auto f) {
      const auto path = folder / name;
      if (!std::filesystem::exists(path)) return;
      const Json json = read_json(path);
      f(detail::JsonPart(json, path.string() + ": "));
    };
    auto around = [&](const detail::JsonPart& config, const char* key, const char* name, auto& ids) {
      if (config[key].null()) return;
      const bool wanted = config.get<bool>(key);
      if (wanted && !token(name)) config[key].fail("there is no token that is the " + std::string(name));
      ids = wanted ? std::vector{*token(name)} : std::vector<std::int32_t>();
    };
    if (!file.empty()) {
      read("tokenizer_config.json", [&](const detail::JsonPart& config) {
        around(config, "add_bos_token", "bos_token", result.around_.before);
        around(config, "add_eos_token", "eos_token", result.around_.after);
      });
      result.end_ = token("eos_token");
    }
    for (const char* name : {"config.json", "generation_config.json"}) {
      read(name, [&](const detail::JsonPart& config) {
        detail::JsonPart end = config["eos_token_id"];
        if (end.json().is_array() && !end.json().empty()) end = end[0];
        if (!end.null()) result.end_ = end.get<std::int32_t>();
      });
    }
    detail::Fingerprint all;
    all.add(result.fingerprint_).add(std::bit_cast<std::uint64_t>(Index{result.end_.value_or(-1)}));
    for (const auto* side : {&result.around_.before, &result.around_.after}) {
      all.add(std::uint64_t{side->size()});
      for (const std::int32_t id : *side) all.add(static_cast<std::uint64_t>(id));
    }
    result.fingerprint_ = all.value();
    return result;
  }

  /// Throws `std::invalid_argument` for text that is not UTF-8 (from a file; bytes take any text), and for characters
  /// that the vocabulary cannot write. No file can make this endless: throws `std::length_error` if its steps make more
  /// than 16 times as many bytes as the text has (and 64 KiB), and `std::runtime_error` if regular expressions take too
  /// many steps, for one match or in all.
  std::vector<std::int32_t> encode(std::string_view text, EncodeOptions options = {}) const {
    if (!file_) return ByteTokenizer{}.encode(text);
    std::vector<std::int32_t> ids;
    if (options.add_special_tokens) ids = around_.before;
    file_->encode(text, options.match_special_tokens, options.ordinary, ids);
    if (options.add_special_tokens) ids.insert(ids.end(), around_.after.begin(), around_.after.end());
    return ids;
  }
  /// Where special tokens begin in the text: what `EncodeOptions::ordinary` takes. Throws `std::invalid_argument` for such that
  /// the file wants to be found in normalized text.
  std::vector<std::size_t> special_tokens_in(std::string_view text) const {
    return file_ ? file_->special_in(text) : std::vector<std::size_t>();
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

  /// What texts begin with, if the tokenizer puts a token before them.
  std::optional<std::int32_t> begin_token() const {
    return around_.before.empty() ? std::nullopt : std::optional(around_.before.front());
  }

  /// What texts end with: what the folder says; the token that the file puts after them; or else the one that Llama 3, Llama 1
  /// and 2, and GPT-2 call so, for the file does not say.
  std::optional<std::int32_t> end_token() const {
    if (end_) return end_;
    if (!around_.after.empty()) return around_.after.front();
    for (const char* name : {"<|end_of_text|>", "</s>", "<|endoftext|>"})
      if (const auto id = id_of(name)) return id;
    return std::nullopt;
  }

  /// A number that differs between tokenizers: of the file's bytes, and what a folder says.
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  Tokenizer() = default;

  std::shared_ptr<const detail::TokenizerFile> file_;  // null: bytes
  detail::Template around_;
  std::optional<std::int32_t> end_;
  std::uint64_t fingerprint_ = ByteTokenizer::fingerprint();
};

}  // namespace shardwise
