// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Documents for training, in memory or in a mapped file. llm/data/json_lines.hpp reads them.
///
/// ```
/// TrainingDocuments documents = read_json_lines({"train.jsonl"}, tokenizer, {.cache = "run/train.tokens"});
/// auto held_out = hold_out(documents, 0.1, seed);
/// ```
/// A document is a sequence of numbers of 32 bits in a `TokenCorpus`: how many tokens and answers it has, the number of
/// its file and its line, whether it has special text; begins and sizes of the answers; the tokens.

#include <shardwise/llm/data/batch_sampler.hpp>
#include <shardwise/llm/data/token_corpus.hpp>
#include <shardwise/llm/namespaces.hpp>

namespace shardwise::llm {

/// The tokens of a text, and the parts that are predicted in training.
struct TrainingDocument {
  std::vector<std::int32_t> tokens;
  std::vector<Range> answers;     ///< parts of the tokens, in order
  std::string place = {};         ///< its origin, for errors: "FILE:LINE"
  bool has_special_text = false;  ///< its text contains special tokens, as ordinary text
};

namespace detail {

inline constexpr Index numbers_before_answers = 5, document_number_range = Index{1} << 31;

/// `line` 0: the name is the whole place.
inline std::vector<std::int32_t> numbers_of(const TrainingDocument& document, Index name, Index line) {
  std::vector<std::int32_t> numbers;
  for (const Index each : {std::ssize(document.tokens), std::ssize(document.answers), name, line,
                           Index{document.has_special_text}})
    numbers.push_back(static_cast<std::int32_t>(each));
  for (const Range& answer : document.answers)
    for (const Index each : {answer.begin, answer.size}) numbers.push_back(static_cast<std::int32_t>(each));
  numbers.insert(numbers.end(), document.tokens.begin(), document.tokens.end());
  return numbers;
}

}  // namespace detail

/// A list of documents; copies share them. In memory it needs eight bytes for each document, besides what it takes to
/// hold their numbers if they are not in a file.
class TrainingDocuments {
 public:
  /// Documents in memory.
  TrainingDocuments(const std::vector<TrainingDocument>& documents)
      : TrainingDocuments(in_memory(documents), {}) {
    for (const TrainingDocument& each : documents) names_.push_back(each.place);
  }
  /// Not part of the interface: numbers as above, and the names of the files. Throws `std::runtime_error` for other
  /// numbers.
  TrainingDocuments(TokenCorpus numbers, std::vector<std::string> names)
      : numbers_(std::move(numbers)), names_(std::move(names)) {
    for (Index at = 0; at < numbers_.size(); at = begins_.back() + size_at(begins_.back())) {
      begins_.push_back(at);
      if (numbers_.size() - at >= detail::numbers_before_answers && numbers_[at] >= 0 &&
          numbers_[at + 1] >= 0 && size_at(at) <= numbers_.size() - at)
        continue;
      detail::fail<std::runtime_error>({"the numbers from ", at, " on are not a document"});
    }
  }

  /// The number of documents.
  Index size() const { return std::ssize(begins_); }
  bool empty() const { return begins_.empty(); }
  TrainingDocument operator[](Index i) const {
    const Index at = begins_.at(static_cast<std::size_t>(i));
    std::vector<std::int32_t> numbers(static_cast<std::size_t>(size_at(at)));
    numbers_.copy(at, numbers);
    const auto answers = numbers.begin() + detail::numbers_before_answers,
               tokens = answers + 2 * Index{numbers[1]};
    TrainingDocument document{{tokens, numbers.end()}, {}};
    for (auto each = answers; each != tokens; each += 2) document.answers.push_back({each[0], each[1]});
    const auto name = static_cast<std::size_t>(numbers[2]);
    if (name < names_.size()) document.place = names_[name];
    if (numbers[3] > 0) document.place += ":" + std::to_string(numbers[3]);
    document.has_special_text = numbers[4] != 0;
    return document;
  }

  /// Moves a part of the documents, chosen by `seed`, to a new list: at least one, but not all. Both keep their
  /// order. Throws `std::invalid_argument` if there is only one document, or if the part is not in (0, 1).
  friend TrainingDocuments hold_out(TrainingDocuments& documents, double part, std::uint64_t seed) {
    const Index count = documents.size();
    if (count < 2 || !(part > 0 && part < 1)) {
      detail::fail({"hold_out: ", part, " of ", count, " documents: expected a part in (0, 1) of 2 or more"});
    }
    const Index wanted =
        std::clamp<Index>(static_cast<Index>(part * static_cast<double>(count)), 1, count - 1);
    const Permutation order(count, seed, std::numeric_limits<std::uint64_t>::max());  // not used by an epoch
    TrainingDocuments held_out = documents;
    held_out.begins_.clear();
    std::vector<Index> kept;
    for (Index i = 0; i < count; ++i)
      (order(i) < wanted ? held_out.begins_ : kept).push_back(documents.begins_[static_cast<std::size_t>(i)]);
    documents.begins_ = std::move(kept);
    return held_out;
  }

 private:
  static TokenCorpus in_memory(const std::vector<TrainingDocument>& documents) {
    std::vector<char> bytes;
    for (Index i = 0; i < std::ssize(documents); ++i) {
      const std::vector<std::int32_t> numbers =
          detail::numbers_of(documents[static_cast<std::size_t>(i)], i, 0);
      const auto* first = reinterpret_cast<const char*>(numbers.data());
      bytes.insert(bytes.end(), first, first + numbers.size() * sizeof numbers[0]);
    }
    detail::TokenFileHeader header;
    header.token_bytes = sizeof(std::int32_t);
    header.count = bytes.size() / sizeof(std::int32_t);
    return {header, std::move(bytes)};
  }
  Index size_at(Index at) const {
    return detail::numbers_before_answers + 2 * Index{numbers_[at + 1]} + numbers_[at];
  }

  TokenCorpus numbers_;
  std::vector<std::string> names_;
  std::vector<Index> begins_;
};
TrainingDocuments hold_out(TrainingDocuments& documents, double part, std::uint64_t seed);  // the one above

/// A hash of tokens and answers, to tell lists apart.
inline std::uint64_t fingerprint_of(const TrainingDocuments& documents) {
  Fingerprint all;
  auto add = [&](const auto& list) {
    all.add(std::uint64_t{list.size()})
        .add({reinterpret_cast<const char*>(list.data()), list.size() * sizeof(list[0])});
  };
  for (Index i = 0; i < documents.size(); ++i) {
    const TrainingDocument document = documents[i];
    add(document.tokens);
    add(document.answers);
  }
  return all.value();
}

}  // namespace shardwise::llm
