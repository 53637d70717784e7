// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A complete `tokenizer.json`: text to tokens and back.

#include <shardwise/layout/block.hpp>
#include <shardwise/llm/namespaces.hpp>
#include <shardwise/llm/text/tokenizer/pre_tokenizer.hpp>
#include <shardwise/llm/text/tokenizer/special_tokens.hpp>
#include <shardwise/llm/text/tokenizer/text_steps.hpp>

namespace shardwise::llm::detail {

inline BytePairEncoding read_model(const JsonPart& part) {
  if (part.get<std::string>("type", "BPE") != "BPE") refuse(part, "model");  // GPT-2's file has no type
  part.only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
             "byte_fallback", "ignore_merges", "vocab", "merges"});
  part.must_be("dropout", 0.);
  part.must_be("continuing_subword_prefix", "");
  part.must_be("end_of_word_suffix", "");
  Vocabulary vocabulary;
  vocabulary.reserve(part["vocab"].json().size());
  part["vocab"].for_each_member([&](const std::string& token, const JsonPart& id) {
    vocabulary.emplace(token, id.get<std::int32_t>());
  });
  std::vector<std::pair<std::string, std::string>> merges;
  part["merges"].for_each([&](const JsonPart& merge) {
    if (merge.json().is_array()) {
      if (merge.json().size() != 2) merge.fail("expected two tokens");
      merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
    } else {
      const auto line = merge.get<std::string>();
      const auto space = line.find(' ');
      if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos) {
        merge.fail("expected two tokens and a space between them");
      }
      merges.emplace_back(line.substr(0, space), line.substr(space + 1));
    }
  });
  BytePairOptions options{part.get<bool>("ignore_merges", false),
                          part.get<bool>("byte_fallback", false),
                          {},
                          part.get<bool>("fuse_unk", false)};
  if (!part["unk_token"].null()) options.unk_token = part.get<std::string>("unk_token");
  return {std::move(vocabulary), merges, options};
}

/// A `tokenizer.json`. Its `truncation` and `padding` are ignored: they describe the batches of a training, and
/// transformers overrides them.
class TokenizerFile {
 public:
  explicit TokenizerFile(const JsonPart& file)
      : normalize_(read_normalizer(file["normalizer"])),
        pre_tokenize_(read_pre_tokenizer(file["pre_tokenizer"])),
        model_(read_model(file["model"])),
        around_(read_post_processor(file["post_processor"])),
        decode_(read_decoder_or_spaces(file["decoder"])) {
    file.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
               "post_processor", "decoder", "model"});
    file.must_be("version", "1.0");
    for (const auto& [text, id] : model_.vocabulary()) set(text, id, false);
    if (!file["added_tokens"].null()) read_added_tokens(file["added_tokens"]);
    for (const auto* side : {&around_.before, &around_.after}) {
      for (const std::int32_t id : *side) {
        if (!tokens_.contains(id)) file["post_processor"].fail("there is no token " + std::to_string(id));
      }
    }
  }

  /// Appends the tokens of the text to `ids`.
  void encode(std::string_view text, bool match_special, std::span<const std::size_t> ordinary,
              std::vector<std::int32_t>& ids) const {
    check_utf8(text);
    Seen seen;
    std::size_t longest = longest_made_of(text.size());  // for the rest of the text
    auto on_token = [&](std::int32_t id) { ids.push_back(id); };
    before_normalizing_.split(text, match_special, ordinary, on_token, [&](std::string_view raw, bool first) {
      std::string normal(raw);
      normalize_(normal, longest);
      after_normalizing_.split(
          normal, match_special, {}, on_token, [&](std::string_view part, bool also_first) {
            Words words{std::string(part), {{0, part.size(), first && also_first}}, longest};
            pre_tokenize_(words);
            check_length(words.text.size(), longest);
            longest -= words.text.size();
            for (const Words::Word& word : words.words) encode_word(words[word], seen, ids);
          });
    });
  }
  /// The offsets of special tokens in the text. Those matched in normalized text cannot be located.
  std::vector<std::size_t> special_in(std::string_view text) const {
    if (special_after_normalizing_) {
      std::string normal(text);
      normalize_(normal, longest_made_of(text.size()));
      if (!after_normalizing_.special_in(normal).empty())
        fail({"special tokens in \"", excerpt(std::string(text)),
              "\", which cannot be ordinary text: they are normalized"});
    }
    return before_normalizing_.special_in(text);
  }

  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const {
    std::vector<std::string> tokens;
    tokens.reserve(ids.size());
    std::size_t bytes = 0;
    for (const std::int32_t id : ids) {
      const auto found = tokens_.find(id);
      if (found == tokens_.end()) {
        fail({"there is no token ", id, ": expected 0 to ", vocabulary() - 1, ", and one that the file has"});
      }
      const Token& token = found->second;
      if (skip_special && token.special) continue;
      tokens.push_back(token.text);
      bytes += token.text.size();
    }
    decode_(tokens, longest_made_of(bytes));
    fuse(tokens);
    return std::move(tokens.front());
  }

  Index vocabulary() const { return vocabulary_; }
  std::optional<std::int32_t> id_of(std::string_view token) const {
    if (const auto found = added_.find(token); found != added_.end()) return found->second;
    return model_.id_of(token);
  }
  const Template& around() const { return around_; }

 private:
  struct Token {
    std::string text;
    bool special = false;
  };
  /// A cache: where the result contains the tokens of words encoded before.
  using Seen = std::unordered_map<std::string, Range, TextHash, std::equal_to<>>;

  void encode_word(std::string_view word, Seen& seen, std::vector<std::int32_t>& ids) const {
    constexpr std::size_t longest = 32, most = std::size_t{1} << 17;  // repeated words are short
    const Index begin = std::ssize(ids);
    if (const auto found = seen.find(word); found != seen.end()) {
      const Range same = found->second;
      ids.resize(ids.size() + static_cast<std::size_t>(same.size));
      std::copy_n(ids.begin() + same.begin, same.size, ids.begin() + begin);
      return;
    }
    model_.encode(word, ids);
    if (word.size() <= longest && seen.size() < most)
      seen.emplace(word, Range{begin, std::ssize(ids) - begin});
  }

  void read_added_tokens(const JsonPart& list) {
    std::vector<AddedToken> before, after;
    std::size_t given = 0, made = 0;  // bytes of all normalized tokens so far: before and after
    list.for_each([&](const JsonPart& part) {
      AddedToken token = read_added_token(part);
      const auto in_model = model_.id_of(token.text);
      if (in_model && *in_model != token.id) part.fail("the vocabulary has the token with another id");
      if (const auto [other, fresh] = added_.emplace(token.text, token.id); !fresh) {
        if (other->second == token.id) return;  // the first counts, as in Hugging Face's library
        part.fail("the token is there twice, with the ids " + std::to_string(other->second) + " and " +
                  std::to_string(token.id));
      }
      set(token.text, token.id, token.special);
      if (token.normalized) {
        given += token.text.size();
        normalize_(token.text, longest_made_of(given) - made);
        made += token.text.size();
      }
      if (token.text.empty()) part.fail("the normalizer leaves nothing of the token");
      special_after_normalizing_ = special_after_normalizing_ || (token.normalized && token.special);
      (token.normalized ? after : before).push_back(std::move(token));
    });
    before_normalizing_ = AddedTokens(std::move(before));
    after_normalizing_ = AddedTokens(std::move(after));
  }

  void set(const std::string& text, std::int32_t id, bool special) {
    const auto [place, fresh] = tokens_.try_emplace(id, Token{text, special});
    if (!fresh && place->second.text != text) {
      fail<std::runtime_error>(
          {"\"", excerpt(place->second.text), "\" and \"", excerpt(text), "\" have one id, ", id});
    }
    place->second.special = special;
    vocabulary_ = std::max(vocabulary_, Index{id} + 1);
  }

  Normalizer normalize_;
  PreTokenizer pre_tokenize_;
  BytePairEncoding model_;
  Template around_;
  Decoder decode_;
  AddedTokens before_normalizing_, after_normalizing_;
  bool special_after_normalizing_ = false;
  Vocabulary added_;
  std::unordered_map<std::int32_t, Token> tokens_;  // by id: a file may skip any number of ids
  Index vocabulary_ = 0;
};

}  // namespace shardwise::llm::detail
