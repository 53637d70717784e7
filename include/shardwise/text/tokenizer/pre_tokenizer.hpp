// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How a `tokenizer.json` cuts text into words.

#include <shardwise/text/tokenizer/component.hpp>
#include <shardwise/text/utf8.hpp>

namespace shardwise::detail {

/// Text cut into words, in order; what is in no word is dropped.
struct Words {
  struct Word {
    std::size_t begin, end;
    bool first;  // does it begin where the whole text begins?
  };
  std::string text;
  std::vector<Word> words;
  std::size_t longest = std::numeric_limits<std::size_t>::max();  // bytes that the text may become

  std::string_view operator[](const Word& word) const {
    return std::string_view(text).substr(word.begin, word.end - word.begin);
  }
};
using PreTokenizer = std::function<void(Words&)>;

/// Writes every word anew: f(word, is it the first?, where to add it).
template <class F>
void rewrite(Words& words, F f) {
  std::string text;
  text.reserve(words.text.size() + words.text.size() / 4);
  for (Words::Word& word : words.words) {
    const std::size_t begin = text.size();
    f(words[word], word.first, text);
    check_length(text.size(), words.longest);
    word = {begin, text.size(), word.first};
  }
  words.text = std::move(text);
}

/// Where matches are, and what is between them, becomes words: matches are `isolated` or `removed`, joined to
/// the word before or after, or matches in a row are one word.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// Cuts every word; `invert` swaps the matches and what is between them.
inline void split(Words& words, const TextPattern& pattern, SplitBehavior behavior, bool invert = false) {
  std::vector<Words::Word> result;
  TextPattern::Scanner scan(pattern);
  for (const Words::Word& word : words.words) {
    bool begun = false, previous = false;
    auto add = [&](std::size_t begin, std::size_t end, bool match) {
      const bool joins = (behavior == SplitBehavior::contiguous && match == previous) ||
                         (behavior == SplitBehavior::merged_with_previous && match && !previous) ||
                         (behavior == SplitBehavior::merged_with_next && !match && previous);
      if (begun && joins) {
        result.back().end = word.begin + end;
      } else if (!(match && behavior == SplitBehavior::removed)) {
        result.push_back({word.begin + begin, word.begin + end, word.first && begin == 0});
      }
      begun = true;
      previous = match;
    };
    std::size_t done = 0;
    scan(words[word], [&](std::size_t from, std::size_t to) {
      if (done < from) add(done, from, invert);
      add(from, to, !invert);
      done = to;
    });
    if (done < word.end - word.begin) add(done, word.end - word.begin, invert);
  }
  words.words = std::move(result);
}

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

}  // namespace shardwise::detail
