// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Documents of different lengths as rows of one length: each in a row of its own, or several per row with borders
/// between them. Only tokens of answers are targets.
///
/// ```
/// const DocumentRows rows(documents, {.length = 1024, .packed = true});
/// const BatchSampler sampler = rows.sampler({.batch = 8, .seed = 1});
/// auto batch = load_batch(mesh, rows, sampler, step);   // batch.documents: which token is of which document
/// ```

#include <shardwise/data/batch_sampler.hpp>
#include <shardwise/io/fingerprint.hpp>

namespace shardwise {

/// The tokens of a text, and the parts that are predicted in training.
struct TrainingDocument {
  std::vector<std::int32_t> tokens;
  std::vector<Range> answers;     ///< parts of the tokens, in order
  std::string place = {};         ///< its origin, for errors: "FILE:LINE"
  bool has_special_text = false;  ///< its text contains special tokens, as ordinary text
};

/// A hash of tokens and answers, to tell lists apart.
inline std::uint64_t fingerprint_of(const std::vector<TrainingDocument>& documents) {
  detail::Fingerprint all;
  auto add = [&](const auto& list) {
    all.add(std::uint64_t{list.size()})
        .add({reinterpret_cast<const char*>(list.data()), list.size() * sizeof(list[0])});
  };
  for (const TrainingDocument& document : documents) {
    add(document.tokens);
    add(document.answers);
  }
  return all.value();
}

/// Moves a part of the documents, chosen by `seed`, to a new list: at least one, but not all. Both keep their
/// order. Throws `std::invalid_argument` if there is only one document, or if the part is not in (0, 1).
inline std::vector<TrainingDocument> hold_out(std::vector<TrainingDocument>& documents, double part,
                                              std::uint64_t seed) {
  const auto count = static_cast<Index>(documents.size());
  if (count < 2 || !(part > 0 && part < 1)) {
    detail::fail({"hold_out: ", part, " of ", count, " documents: expected a part in (0, 1) of 2 or more"});
  }
  const Index wanted = std::clamp<Index>(static_cast<Index>(part * static_cast<double>(count)), 1, count - 1);
  const Permutation order(count, seed, std::numeric_limits<std::uint64_t>::max());  // not used by an epoch
  std::vector<TrainingDocument> held_out, kept;
  for (Index i = 0; i < count; ++i) {
    (order(i) < wanted ? held_out : kept).push_back(std::move(documents[static_cast<std::size_t>(i)]));
  }
  documents = std::move(kept);
  return held_out;
}

/// Documents with more tokens than a row takes are an error, lose their ends, or become several documents. Their parts
/// do not see each other, and each target counts once. Parts without targets are dropped.
enum class LongDocuments : std::uint8_t { refuse, cut, split };

struct RowOptions {
  Index length = 0;  ///< of a row; a document may have one token more, because its last one is only a target
  bool packed = false;                        ///< several documents per row, in order, as long as they fit
  std::int32_t padding = 0;                   ///< the input outside documents
  Index ignore_index = ignore_index_default;  ///< the target of tokens that are not trained on, negative
  LongDocuments long_documents = LongDocuments::refuse;
};

/// In memory as documents, with four bytes per token.
class DocumentRows {
 public:
  /// Throws `std::invalid_argument`, with the document's place, if one is longer than a row and long documents are
  /// refused, or if one has no answer, or answers that are out of range or overlap.
  DocumentRows(std::vector<TrainingDocument> documents, const RowOptions& options) : options_(options) {
    if (options.length < 1)
      detail::fail({"DocumentRows: length is ", options.length, ": expected at least 1"});
    for (TrainingDocument& document : documents) {
      checked(document);
      if (std::ssize(document.tokens) <= options.length + 1) {
        documents_.push_back(std::move(document));
      } else {
        add_long(document);
      }
    }
    if (documents_.empty() && dropped_ > 0)
      throw std::invalid_argument("no document has something to be learned within a row");
    Index filled = 0;  // positions used in the last row
    for (Index i = 0; i < this->documents(); ++i) {
      const TrainingDocument& document = documents_[static_cast<std::size_t>(i)];
      const Index counted = targets(document);
      filled += places(document);
      places_ += places(document);
      if (!options.packed || rows_.empty() || filled > options.length) {
        rows_.push_back({i, 0, 0});
        filled = places(document);
      }
      rows_.back().documents += 1;
      rows_.back().counted += counted;
    }
  }

  Index size() const { return static_cast<Index>(rows_.size()); }
  /// Parts of a document that was split count.
  Index documents() const { return static_cast<Index>(documents_.size()); }
  const RowOptions& options() const { return options_; }
  /// How many documents were longer than a row, and how many of these are not there, because no part has a target.
  Index long_documents() const { return long_; }
  Index dropped() const { return dropped_; }
  /// The fraction of all positions that documents fill.
  double filled() const {
    return static_cast<double>(places_) / static_cast<double>(size() * options_.length);
  }

  /// Assigns rows to steps; `length` and `ignore_index` of the options are replaced by those of the rows. Throws as
  /// `BatchSampler` does.
  BatchSampler sampler(BatchOptions options) const {
    options.length = options_.length;
    options.ignore_index = options_.ignore_index;
    if (options.last == LastBatch::drop && size() < options.batch) {
      detail::fail({"DocumentRows: there are ", size(), " rows, but a step needs ", options.batch,
                    ", unless the last batch is padded"});
    }
    return {size() * options_.length + 1, options};  // this number of tokens gives size() sequences
  }

  /// The number of targets that count in a row, and in a step.
  Index counted(Index row) const { return rows_.at(static_cast<std::size_t>(row)).counted; }
  Index counted(const BatchSampler& sampler, Index step) const {
    Index targets = 0;
    for (const auto row : sampler.sequences(step)) targets += row ? counted(*row) : 0;
    return targets;
  }

  /// Writes a row, or padding if there is no number. `documents`, unless null, receives the numbers of the row's
  /// documents, from 0 on, and -1 for padding.
  void copy(std::optional<Index> number, std::int32_t* inputs, std::int32_t* targets,
            std::int32_t* documents) const {
    Index filled = 0;
    std::fill_n(targets, options_.length, static_cast<std::int32_t>(options_.ignore_index));
    const Row row = number ? rows_.at(static_cast<std::size_t>(*number)) : Row();
    for (Index i = 0; i < row.documents; ++i) {
      const TrainingDocument& document = documents_[static_cast<std::size_t>(row.first + i)];
      const Index count = places(document);
      std::copy_n(document.tokens.begin(), count, inputs + filled);
      if (documents) std::fill_n(documents + filled, count, static_cast<std::int32_t>(i));
      for (const Range& answer : document.answers) {
        for (Index at = std::max<Index>(answer.begin, 1); at < answer.end(); ++at)
          targets[filled + at - 1] = document.tokens[static_cast<std::size_t>(at)];
      }
      filled += count;
    }
    std::fill(inputs + filled, inputs + options_.length, options_.padding);
    if (documents) std::fill(documents + filled, documents + options_.length, -1);
  }

 private:
  struct Row {
    Index first = 0, documents = 0, counted = 0;
  };

  /// The positions that a document takes in a row: its last token is only a target.
  static Index places(const TrainingDocument& document) {
    return std::max<Index>(std::ssize(document.tokens) - 1, 0);
  }

  /// The number of targets that count. The first token of a document is not a target.
  static Index targets(const TrainingDocument& document) {
    Index counted = 0;
    for (const Range& answer : document.answers)
      counted += std::max<Index>(answer.end() - std::max<Index>(answer.begin, 1), 0);
    return counted;
  }

  /// Cuts or splits a document. The last token of a part, which is only a target, is the first input of the next one.
  void add_long(const TrainingDocument& document) {
    const Index size = std::ssize(document.tokens), before = documents();
    ++long_;
    for (Index begin = 0; begin + 1 < size; begin += options_.length) {
      const Range all{begin, std::min(options_.length + 1, size - begin)};
      const auto first = document.tokens.begin() + begin;
      TrainingDocument part{{first, first + all.size}, {}, document.place};
      for (const Range& answer : document.answers) {
        const Range seen = intersection(all, answer);
        if (seen.size > 0) part.answers.push_back({seen.begin - begin, seen.size});
      }
      if (targets(part) > 0) documents_.push_back(std::move(part));
      if (options_.long_documents == LongDocuments::cut) break;
    }
    if (documents() == before) ++dropped_;
  }

  void checked(const TrainingDocument& document) const {
    const Index size = std::ssize(document.tokens);
    auto fail = [&](std::initializer_list<detail::TextPart> what) {
      detail::fail({document.place.empty() ? "a document" : document.place, ": ", detail::text(what)});
    };
    if (options_.long_documents == LongDocuments::refuse && size > options_.length + 1) {
      fail({"the document has ", size, " tokens, but a row of ", options_.length, " takes ",
            options_.length + 1});
    }
    Index before = 0;
    for (const Range& answer : document.answers) {
      if (answer.begin < before || answer.size < 0 || answer.end() > size) {
        fail({"an answer is [", answer.begin, ", ", answer.end(), "): expected a part of what is left, [",
              before, ", ", size, ")"});
      }
      before = answer.end();
    }
    if (targets(document) == 0) fail({"the document has nothing to be learned"});
  }

  RowOptions options_;
  std::vector<TrainingDocument> documents_;
  std::vector<Row> rows_;
  Index places_ = 0;  ///< positions filled in all rows
  Index long_ = 0, dropped_ = 0;
};

}  // namespace shardwise
