// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How a `tokenizer.json` splits text into words.

#include <shardwise/llm/namespaces.hpp>
#include <shardwise/llm/text/tokenizer/words.hpp>

namespace shardwise::llm::detail {

using PreTokenizer = std::function<void(Words&)>;

inline SplitBehavior read_behavior(const JsonPart& part) {
  constexpr std::array names{"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
  const auto number = std::ranges::find(names, part.get<std::string>()) - names.begin();
  if (number == std::ssize(names)) part.fail(excerpt(part.json()) + " is not supported");
  return static_cast<SplitBehavior>(number);
}

inline PreTokenizer byte_level(bool add_prefix_space, bool use_regex) {
  // GPT-2's (Radford et al., "Language models are unsupervised multitask learners", 2019).
  auto pattern = TextPattern::expression(
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)");
  return [=](Words& words) {
    if (add_prefix_space) {
      rewrite(words, [](std::string_view word, bool, std::string& text) {
        if (!word.starts_with(' ')) text += ' ';
        text += word;
      });
    }
    if (use_regex) split(words, pattern, SplitBehavior::isolated);
    rewrite(words, [](std::string_view word, bool, std::string& text) {
      for (const char byte : word) byte_alphabet.append(text, byte);
    });
  };
}

inline PreTokenizer metaspace(std::string mark, std::string scheme, bool cut) {
  auto pattern = TextPattern::literal(mark);
  return [=](Words& words) {
    rewrite(words, [&](std::string_view word, bool first, std::string& text) {
      const bool marked = word.starts_with(' ') || word.starts_with(mark);
      if (!marked && (scheme == "always" || (scheme == "first" && first))) text += mark;
      for (const char c : word) c == ' ' ? text += mark : text += c;
    });
    if (cut) split(words, pattern, SplitBehavior::merged_with_next);
  };
}

inline PreTokenizer read_pre_tokenizer(const JsonPart& part) {
  if (part.null()) return [](Words&) {};
  const std::string type = part.get<std::string>("type");
  if (type == "Sequence") return read_sequence<PreTokenizer>(part, "pretokenizers", read_pre_tokenizer);
  if (type == "ByteLevel") {
    part.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return byte_level(part.get<bool>("add_prefix_space"), part.get<bool>("use_regex", true));
  }
  if (type == "Split") {
    part.only({"type", "pattern", "behavior", "invert"});
    return
        [pattern = read_pattern(part["pattern"]), behavior = read_behavior(part["behavior"]),
         invert = part.get<bool>("invert", false)](Words& words) { split(words, pattern, behavior, invert); };
  }
  if (type == "Digits") {
    part.only({"type", "individual_digits"});
    const bool individual = part.get<bool>("individual_digits");
    return [=, digit = TextPattern::expression("\\p{N}")](Words& words) {
      split(words, digit, individual ? SplitBehavior::isolated : SplitBehavior::contiguous);
    };
  }
  if (type == "Metaspace") {
    part.only({"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
    return metaspace(read_character(part["replacement"]), read_prepend_scheme(part),
                     part.get<bool>("split", true));
  }
  refuse(part, "pre_tokenizer");
}

}  // namespace shardwise::llm::detail
