// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Text to tokens and back: bytes, or a Hugging Face `tokenizer.json` with a byte-pair model, such as those of
/// GPT-2 and Llama 1 to 3. An unsupported component is an error, with its name, when the file is read.
///
/// ```
/// auto tokenizer = Tokenizer::from_file("llama/tokenizer.json");   // or Tokenizer::bytes()
/// auto ids = tokenizer.encode("Once upon a time");                 // begins with tokenizer.begin_token()
/// std::string text = tokenizer.decode(ids);
/// ```
///
/// Needs PCRE2 and utf8proc: link `shardwise::tokenizer`. Where these are missing, llm.hpp leaves this header out.

#include <shardwise/llm/text/byte_tokenizer.hpp>
#include <shardwise/llm/text/special_token.hpp>
#include <shardwise/llm/text/tokenizer/tokenizer_file.hpp>

namespace shardwise::llm {

struct EncodeOptions {
  bool add_special_tokens = true;    ///< the tokens that the file adds around a text, such as `<s>`
  bool match_special_tokens = true;  ///< `<s>` in the text becomes that token; use false for untrusted text
  std::span<const std::size_t> ordinary = {};  ///< ascending offsets of special tokens to treat as text
};
struct DecodeOptions {
  bool skip_special_tokens = true;  ///< special tokens produce no text
};

/// Turns text into tokens and tokens into text, as Hugging Face's `tokenizers` does with the same file, except as
/// stated at `decode`. Copies share their data; thread-safe.
class Tokenizer {
 public:
  /// Bytes as tokens: see `ByteTokenizer`.
  static Tokenizer bytes() { return {}; }

  /// Reads a `tokenizer.json` with a model of type BPE. Throws `std::runtime_error`, with the file and the place in
  /// it, if it cannot be read, is invalid, or needs an unsupported component.
  static Tokenizer from_file(const std::filesystem::path& path) {
    return from_json(read_text(path), path.string());
  }

  /// The same from the file's text; errors begin with `source`.
  static Tokenizer from_json(std::string_view text, const std::string& source = "tokenizer.json") {
    return prefix_errors(source, [&] {
      const Json json = detail::json_of(text);
      Tokenizer result;
      result.file_ = std::make_shared<const detail::TokenizerFile>(JsonPart(json));
      result.around_ = result.file_->around();
      result.fingerprint_ = detail::fingerprint_of(text);
      return result;
    });
  }

  /// The tokenizer of a model's folder: `file`, or its tokenizer.json, or bytes. It also determines the begin and
  /// end tokens of texts for training, evaluation and generation. Texts begin with the token that the tokenizer
  /// puts before them: that of the post_processor, unless `add_bos_token` of tokenizer_config.json overrides it
  /// (likewise `add_eos_token` for the end); `bos_token_id` is ignored. They end with the first `eos_token_id` of
  /// generation_config.json or config.json; else with `eos_token` of tokenizer_config.json or
  /// special_tokens_map.json; else as `end_token` states. Throws `std::runtime_error`, with the file.
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
      f(JsonPart(json, path.string() + ": "));
    };
    auto around = [&](const JsonPart& config, const char* key, const char* name, auto& ids) {
      if (config[key].null()) return;
      const bool wanted = config.get<bool>(key);
      if (wanted && !token(name)) config[key].fail("there is no token that is the " + std::string(name));
      ids = wanted ? std::vector{*token(name)} : std::vector<std::int32_t>();
    };
    if (!file.empty()) {
      read("tokenizer_config.json", [&](const JsonPart& config) {
        around(config, "add_bos_token", "bos_token", result.around_.before);
        around(config, "add_eos_token", "eos_token", result.around_.after);
      });
      result.end_ = token("eos_token");
    }
    for (const char* name : {"config.json", "generation_config.json"}) {
      read(name, [&](const JsonPart& config) {
        JsonPart end = config["eos_token_id"];
        if (end.json().is_array() && !end.json().empty()) end = end[0];
        if (!end.null()) result.end_ = end.get<std::int32_t>();
      });
    }
    Fingerprint all;
    all.add(result.fingerprint_).add(std::bit_cast<std::uint64_t>(Index{result.end_.value_or(-1)}));
    for (const auto* side : {&result.around_.before, &result.around_.after}) {
      all.add(std::uint64_t{side->size()});
      for (const std::int32_t id : *side) all.add(static_cast<std::uint64_t>(id));
    }
    result.fingerprint_ = all.value();
    return result;
  }

  /// Throws `std::invalid_argument` for text that is not UTF-8 (with a file; bytes accept any text), and for
  /// characters that the vocabulary cannot represent. A file cannot make this run forever: throws
  /// `std::length_error` if its steps produce more than 16 times the bytes of the text (plus 64 KiB), and
  /// `std::runtime_error` if regular expressions take too many steps, for one match or in total.
  std::vector<std::int32_t> encode(std::string_view text, EncodeOptions options = {}) const {
    if (!file_) return ByteTokenizer{}.encode(text);
    std::vector<std::int32_t> ids;
    if (options.add_special_tokens) ids = around_.before;
    file_->encode(text, options.match_special_tokens, options.ordinary, ids);
    if (options.add_special_tokens) ids.insert(ids.end(), around_.after.begin(), around_.after.end());
    return ids;
  }
  /// Encodes a part of a longer text as a text of its own, but adds the tokens that the file adds around a text only
  /// where that begins and ends. So a mark that the file puts before each text, such as "▁", is also before the part,
  /// and a special token that continues in the next part is ordinary text.
  std::vector<std::int32_t> encode_part(std::string_view text, bool begins, bool ends) const {
    std::vector<std::int32_t> ids = encode(text, {.add_special_tokens = false});
    if (begins) ids.insert(ids.begin(), around_.before.begin(), around_.before.end());
    if (ends) ids.insert(ids.end(), around_.after.begin(), around_.after.end());
    return ids;
  }
  /// The offsets of special tokens in the text, for `EncodeOptions::ordinary`. Throws `std::invalid_argument` if it
  /// contains a special token that the file matches in normalized text.
  std::vector<std::size_t> special_tokens_in(std::string_view text) const {
    return file_ ? file_->special_in(text) : std::vector<std::size_t>();
  }

  /// Throws `std::invalid_argument` for an unknown id. Tokens that are parts of characters give their bytes, so
  /// that the rest may follow later; Hugging Face gives U+FFFD. The limits are those of `encode`.
  std::string decode(std::span<const std::int32_t> ids, DecodeOptions options = {}) const {
    return file_ ? file_->decode(ids, options.skip_special_tokens) : ByteTokenizer{}.decode(ids);
  }

  /// All ids are below this.
  Index vocabulary() const { return file_ ? file_->vocabulary() : ByteTokenizer::vocabulary(); }

  /// The id of a token such as "<|eot_id|>"; bytes have no names.
  std::optional<std::int32_t> id_of(std::string_view token) const {
    return file_ ? file_->id_of(token) : std::nullopt;
  }

  /// The token that the tokenizer puts before texts, if any.
  std::optional<std::int32_t> begin_token() const {
    return around_.before.empty() ? std::nullopt : std::optional(around_.before.front());
  }

  /// The token at the end of texts: that of the folder; else the one that the file adds after them; else the usual
  /// one of Llama 3, Llama 1 and 2, or GPT-2.
  std::optional<std::int32_t> end_token() const {
    if (end_) return end_;
    if (!around_.after.empty()) return around_.after.front();
    for (const char* name : {"<|end_of_text|>", "</s>", "<|endoftext|>"})
      if (const auto id = id_of(name)) return id;
    return std::nullopt;
  }

  /// A number that differs between tokenizers: a hash of the file and of the folder's settings.
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  Tokenizer() = default;

  std::shared_ptr<const detail::TokenizerFile> file_;  // null: bytes
  detail::Template around_;
  std::optional<std::int32_t> end_;
  std::uint64_t fingerprint_ = ByteTokenizer::fingerprint();
};

}  // namespace shardwise::llm
