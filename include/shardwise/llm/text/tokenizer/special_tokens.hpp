// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The tokens of a `tokenizer.json` outside its model: those matched in the text before the model sees it, and
/// those added around it.

#include <shardwise/llm/namespaces.hpp>
#include <shardwise/llm/text/tokenizer/component.hpp>

namespace shardwise::llm::detail {

/// A token that is matched in the text first. It may absorb adjacent white space.
struct AddedToken {
  std::string text;
  std::int32_t id;
  bool left_space, right_space, normalized, special;
};

inline AddedToken read_added_token(const JsonPart& part) {
  part.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  part.must_be("single_word", false);
  AddedToken token{part.get<std::string>("content"),   part.get<std::int32_t>("id"),
                   part.get<bool>("lstrip", false),    part.get<bool>("rstrip", false),
                   part.get<bool>("normalized", true), part.get<bool>("special", false)};
  if (token.text.empty()) part["content"].fail("expected a token that is not empty");
  return token;
}

/// Finds added tokens: the leftmost match, and among those the longest.
class AddedTokens {
 public:
  AddedTokens() = default;
  /// Among tokens with the same text, the first counts.
  explicit AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
    std::ranges::stable_sort(tokens_, {}, &AddedToken::text);
    const auto same = [](const AddedToken& a, const AddedToken& b) { return a.text == b.text; };
    tokens_.erase(std::unique(tokens_.begin(), tokens_.end(), same), tokens_.end());
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      prefix_.push_back(longest_prefix(tokens_[i].text, i));
      begins_[static_cast<unsigned char>(tokens_[i].text.front())] = true;
    }
  }

  /// Calls on_token(id) and on_text(text, whether it begins where the whole text does) for the parts of the text,
  /// in order. Special tokens can be treated as ordinary text: all, or those at the offsets `ordinary`.
  template <class OnToken, class OnText>
  void split(std::string_view text, bool match_special, std::span<const std::size_t> ordinary,
             OnToken on_token, OnText on_text) const {
    std::size_t done = 0;
    auto flush = [&](std::size_t end) {
      if (done < end) on_text(text.substr(done, end - done), done == 0);
    };
    for (std::size_t i = 0; i < text.size();) {
      const AddedToken* token = longest(text.substr(i));
      if (!token) {
        ++i;
        continue;
      }
      const std::size_t end = i + token->text.size();
      if (token->special && (!match_special || std::ranges::binary_search(ordinary, i))) {
        i = end;
        continue;
      }
      flush(token->left_space ? space_before(text, done, i) : i);
      on_token(token->id);
      i = done = token->right_space ? space_after(text, end) : end;
    }
    flush(text.size());
  }

  std::vector<std::size_t> special_in(std::string_view text) const {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < text.size();) {
      const AddedToken* token = longest(text.substr(i));
      if (token && token->special) places.push_back(i);
      i += token ? token->text.size() : 1;
    }
    return places;
  }

 private:
  const AddedToken* longest(std::string_view rest) const {
    if (!begins_[static_cast<unsigned char>(rest.front())]) return nullptr;
    const auto after = std::ranges::upper_bound(tokens_, rest, {}, &AddedToken::text);
    const std::size_t found = longest_prefix(rest, static_cast<std::size_t>(after - tokens_.begin()));
    return found == none ? nullptr : &tokens_[found];
  }

  /// The longest token that is a prefix of the text, among those before position `end`, where the text would be
  /// sorted. Such a token is also a prefix of all tokens between them.
  std::size_t longest_prefix(std::string_view text, std::size_t end) const {
    std::size_t i = end == 0 ? none : end - 1;
    while (i != none && !text.starts_with(tokens_[i].text)) i = prefix_[i];
    return i;
  }

  static std::size_t space_before(std::string_view text, std::size_t first, std::size_t end) {
    while (end > first) {
      std::size_t begin = end - 1;
      while ((static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
      if (!white_space(character_at(text, begin).value)) break;
      end = begin;
    }
    return end;
  }
  static std::size_t space_after(std::string_view text, std::size_t begin) {
    while (begin < text.size()) {
      const auto [value, length] = character_at(text, begin);
      if (!white_space(value)) break;
      begin += length;
    }
    return begin;
  }

  static constexpr auto none = static_cast<std::size_t>(-1);
  std::vector<AddedToken> tokens_;   // sorted by text
  std::vector<std::size_t> prefix_;  // for each: the longest other token that is its prefix
  std::array<bool, 256> begins_{};   // first bytes of tokens
};

struct Template {
  std::vector<std::int32_t> before, after;
};

inline void check_size(const JsonPart& part, const Template& around) {
  constexpr std::size_t most = 1024;  // tokens may be repeated, so a small file could request any number
  if (around.before.size() + around.after.size() > most)
    part.fail("expected at most 1024 tokens around a text");
}

inline Template read_template(const JsonPart& part) {
  Template result;
  bool text_seen = false;
  part["single"].for_each([&](const JsonPart& piece) {
    piece.only({"Sequence", "SpecialToken"});
    if (!piece["Sequence"].null()) {
      if (text_seen || piece["Sequence"].get<std::string>("id") != "A")
        piece.fail("expected the text A, once");
      text_seen = true;
      return;
    }
    const auto name = piece["SpecialToken"].get<std::string>("id");
    part["special_tokens"][name]["ids"].for_each([&](const JsonPart& id) {
      (text_seen ? result.after : result.before).push_back(id.get<std::int32_t>());
      check_size(part, result);
    });
  });
  if (!text_seen) part["single"].fail("expected the text A, once");
  return result;
}

inline Template read_post_processor(const JsonPart& part) {
  if (part.null()) return {};
  const std::string type = part.get<std::string>("type");
  if (type == "Sequence") {
    part.only({"type", "processors"});
    Template result;
    part["processors"].for_each([&](const JsonPart& processor) {
      const auto [before, after] = read_post_processor(processor);
      result.before.insert(result.before.begin(), before.begin(), before.end());
      result.after.insert(result.after.end(), after.begin(), after.end());
      check_size(part, result);
    });
    return result;
  }
  if (type == "ByteLevel") {  // adjusts offsets into the text, which are not kept here
    part.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return {};
  }
  if (type == "TemplateProcessing") {
    part.only({"type", "single", "pair", "special_tokens"});
    return read_template(part);
  }
  refuse(part, "post_processor");
}

}  // namespace shardwise::llm::detail
