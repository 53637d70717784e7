// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Text split into words.

#include <shardwise/llm/namespaces.hpp>
#include <shardwise/llm/text/tokenizer/component.hpp>

namespace shardwise::llm::detail {

/// Text split into words, in order; text outside words is dropped.
struct Words {
  struct Word {
    std::size_t begin, end;
    bool first;  // whether it begins where the whole text does
  };
  std::string text;
  std::vector<Word> words;
  std::size_t longest = std::numeric_limits<std::size_t>::max();  // the limit of the text's bytes

  std::string_view operator[](const Word& word) const {
    return std::string_view(text).substr(word.begin, word.end - word.begin);
  }
};

/// Rewrites every word: f(word, whether it is the first, where to append it).
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

/// How matches and the parts between them become words: matches are `isolated`, `removed`, or merged with the
/// previous or next word, or adjacent matches become one word.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// Splits every word; `invert` swaps matches and the parts between them.
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

}  // namespace shardwise::llm::detail
