// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Byte-pair encoding (Sennrich, Haddow and Birch, "Neural machine translation of rare words with subword units",
/// ACL 2016): the characters of a word are tokens, and adjacent tokens are merged, best merge first, until no merge
/// applies. It is the model of a tokenizer; `Tokenizer` adds the steps before and after it.
///
/// ```
/// BytePairEncoding model({{"l", 0}, {"o", 1}, {"w", 2}, {"lo", 3}, {"low", 4}}, {{"l", "o"}, {"lo", "w"}});
/// std::vector<std::int32_t> ids;
/// model.encode("lowl", ids);   // 4, 0
/// ```

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <unordered_map>

#include <shardwise/llm/text/utf8.hpp>

namespace shardwise::llm {

/// Finds texts without a copy of the key.
struct TextHash : std::hash<std::string_view> {
  using is_transparent = void;
};
/// The id of each token.
using Vocabulary = std::unordered_map<std::string, std::int32_t, TextHash, std::equal_to<>>;

/// Options for words and characters that need more than merging, as in `tokenizer.json`.
struct BytePairOptions {
  bool ignore_merges = false;            ///< a word that is a token stays one, whatever the merges are
  bool byte_fallback = false;            ///< a character without a token becomes its bytes, <0x00> to <0xFF>
  std::optional<std::string> unk_token;  ///< otherwise it becomes this token
  bool fuse_unk = false;                 ///< several in a row become one such token
};

/// Tokens and their merges. A word of n characters takes O(n log n).
class BytePairEncoding {
 public:
  /// `merges` are pairs of tokens, the best first; for a repeated pair the last position counts. Throws
  /// `std::invalid_argument` if the vocabulary lacks `unk_token` or a token that a merge takes or produces.
  BytePairEncoding(Vocabulary vocabulary, const std::vector<std::pair<std::string, std::string>>& merges,
                   BytePairOptions options = {})
      : vocabulary_(std::move(vocabulary)),
        ignore_merges_(options.ignore_merges),
        fuse_unk_(options.fuse_unk) {
    merges_.reserve(merges.size());
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
      const std::string &left = merges[rank].first, &right = merges[rank].second;
      auto known = [&](const std::string& token) {
        if (const auto id = id_of(token)) return *id;
        detail::fail({"merge ", rank, ", \"", left, "\" and \"", right, "\": the vocabulary has no token \"",
                      token, "\""});
      };
      merges_.insert_or_assign(pair(known(left), known(right)),
                               Merge{static_cast<std::int32_t>(rank), known(left + right)});
    }
    if (options.unk_token) {
      unk_ = id_of(*options.unk_token);
      if (!unk_) {
        detail::fail({"the vocabulary has no token \"", *options.unk_token, "\", which unk_token names"});
      }
    }
    if (options.byte_fallback) {
      for (int byte = 0; byte < 256; ++byte)
        byte_tokens_.push_back(id_of(byte_token(byte)).value_or(no_token));
    }
  }

  /// All tokens and their ids.
  const Vocabulary& vocabulary() const { return vocabulary_; }

  /// The id of a token, if the vocabulary has it.
  std::optional<std::int32_t> id_of(std::string_view token) const {
    const auto found = vocabulary_.find(token);
    if (found == vocabulary_.end()) return std::nullopt;
    return found->second;
  }

  /// Appends the tokens of a word, in UTF-8, to `ids`. Throws `std::invalid_argument` for a character without a
  /// token if neither its bytes nor `unk_token` can represent it, and `std::length_error` for a word of 2 GiB.
  void encode(std::string_view word, std::vector<std::int32_t>& ids) const {
    if (ignore_merges_) {
      if (const auto id = id_of(word)) {
        ids.push_back(*id);
        return;
      }
    }
    std::vector<Symbol> symbols = characters(word);
    merge(symbols);
    for (const Symbol& symbol : symbols) {
      if (symbol.id != no_token) ids.push_back(symbol.id);
    }
  }

  /// "<0x0A>" for 10: the token of a byte in vocabularies with `byte_fallback`.
  static std::string byte_token(int byte) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    const auto value = static_cast<std::size_t>(byte);
    return std::string("<0x") + digits[value / 16] + digits[value % 16] + '>';
  }

 private:
  static constexpr std::int32_t no_token = -1;

  struct Merge {
    std::int32_t rank, result;
  };
  /// A token in the list of a word's tokens; `no_token` once it is merged into its predecessor.
  struct Symbol {
    std::int32_t id, previous, next;
  };
  /// Two adjacent tokens that may merge; outdated if they are no longer adjacent in the list.
  struct Candidate {
    std::int32_t rank, position, left, right, result;
    /// Order in a heap whose top is the greatest: the best merge, and among equals the leftmost.
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };

  static std::uint64_t pair(std::int32_t left, std::int32_t right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  }

  std::vector<Symbol> characters(std::string_view word) const {
    if (word.size() > std::numeric_limits<std::int32_t>::max()) {
      detail::fail<std::length_error>({"a word of ", word.size(), " bytes: expected less than 2^31"});
    }
    std::vector<Symbol> symbols;
    symbols.reserve(word.size());
    auto add = [&](std::int32_t id) {
      const auto position = static_cast<std::int32_t>(symbols.size());
      symbols.push_back({id, position - 1, position + 1});
    };
    bool after_unk = false;
    for (std::size_t i = 0; i < word.size();) {
      const auto [value, length] = detail::character_at(word, i);
      if (length == 0) detail::fail({"the word \"", word, "\" is not UTF-8"});
      const std::string_view character = word.substr(i, length);
      i += length;
      if (const auto id = id_of(character)) {
        add(*id);
        after_unk = false;
      } else if (has_bytes(character)) {
        for (const char c : character) add(byte_tokens_[static_cast<unsigned char>(c)]);
        after_unk = false;
      } else if (unk_) {
        if (!after_unk || !fuse_unk_) add(*unk_);
        after_unk = true;
      } else {
        detail::fail({"the vocabulary has no token for the character \"", character, "\", and no unk_token"});
      }
    }
    if (!symbols.empty()) symbols.back().next = -1;
    return symbols;
  }

  bool has_bytes(std::string_view character) const {
    return !byte_tokens_.empty() && std::ranges::all_of(character, [&](char c) {
      return byte_tokens_[static_cast<unsigned char>(c)] != no_token;
    });
  }

  void merge(std::vector<Symbol>& symbols) const {
    std::vector<Candidate> heap;
    auto consider = [&](std::int32_t position) {
      if (position < 0) return;
      const Symbol& left = symbols[static_cast<std::size_t>(position)];
      if (left.next < 0) return;
      const std::int32_t right = symbols[static_cast<std::size_t>(left.next)].id;
      const auto found = merges_.find(pair(left.id, right));
      if (found == merges_.end()) return;
      heap.push_back({found->second.rank, position, left.id, right, found->second.result});
    };
    for (std::size_t i = 0; i < symbols.size(); ++i) consider(static_cast<std::int32_t>(i));
    std::make_heap(heap.begin(), heap.end());
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end());
      const Candidate best = heap.back();
      heap.pop_back();
      Symbol& left = symbols[static_cast<std::size_t>(best.position)];
      if (left.id != best.left || left.next < 0) continue;
      Symbol& right = symbols[static_cast<std::size_t>(left.next)];
      if (right.id != best.right) continue;
      left.id = best.result;
      left.next = right.next;
      right.id = no_token;
      if (left.next >= 0) symbols[static_cast<std::size_t>(left.next)].previous = best.position;
      for (const std::int32_t position : {left.previous, best.position}) {
        const std::size_t before = heap.size();
        consider(position);
        if (heap.size() > before) std::push_heap(heap.begin(), heap.end());
      }
    }
  }

  Vocabulary vocabulary_;
  std::unordered_map<std::uint64_t, Merge> merges_;  // by pair(left, right)
  std::vector<std::int32_t> byte_tokens_;            // empty without byte_fallback
  std::optional<std::int32_t> unk_;
  bool ignore_merges_, fuse_unk_;
};

}  // namespace shardwise::llm
