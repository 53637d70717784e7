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

#include <shardwise/llm/data/training_documents.hpp>

namespace shardwise::llm {

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

/// Of one source or several. In memory it needs 40 bytes for each row, besides the documents.
class DocumentRows {
 public:
  /// Throws `std::invalid_argument`, with the document's place, if one is longer than a row and long documents are
  /// refused, or if one has no answer, or answers that are out of range or overlap.
  DocumentRows(TrainingDocuments documents, const RowOptions& options) : options_(options) {
    if (options.length < 1)
      detail::fail({"DocumentRows: length is ", options.length, ": expected at least 1"});
    add(std::move(documents));
  }
  /// Adds another source, with rows of its own. Throws as the constructor does.
  void add(TrainingDocuments documents) {
    const Index before = this->documents(), begin = size();
    Index filled = 0;  // positions used in the last row
    for (Index i = 0; i < documents.size(); ++i) {
      const TrainingDocument document = documents[i];
      checked(document);
      const Index parts = this->documents();
      for_each_part(document, 0, [&](const TrainingDocument& part, Index first) {
        filled += places(part);
        places_ += places(part);
        if (!options_.packed || size() == begin || filled > options_.length) {
          rows_.push_back({sources_.size(), i, first, 0, 0});
          filled = places(part);
        }
        rows_.back().documents += 1;
        rows_.back().counted += targets(part);
        ++documents_count_;
        return true;
      });
      if (std::ssize(document.tokens) > options_.length + 1) ++long_;
      if (this->documents() == parts) ++dropped_;
    }
    if (this->documents() == before && !documents.empty())
      throw std::invalid_argument("no document has something to be learned within a row");
    sources_.push_back({std::move(documents), size() - begin});
  }

  /// The number of rows.
  Index size() const { return static_cast<Index>(rows_.size()); }
  /// Parts of a document that was split count.
  Index documents() const { return documents_count_; }
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
  /// The same for a mix, with the weight of each source.
  BatchSampler sampler(BatchOptions options, const std::vector<Index>& weights) const {
    if (weights.size() != sources_.size()) {
      detail::fail({"DocumentRows: there are ", std::ssize(weights), " weights of ", std::ssize(sources_),
                    " sources"});
    }
    options.length = options_.length;
    options.ignore_index = options_.ignore_index;
    std::vector<MixedSource> mix;
    for (const Source& each : sources_) mix.push_back({each.rows * options.length + 1, weights[mix.size()]});
    return {mix, options};
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
    for (Index i = row.first, count = 0; count < row.documents; ++i) {
      const TrainingDocument document = sources_[row.source].documents[i];
      for_each_part(document, i == row.first ? row.begin : 0, [&](const TrainingDocument& part, Index) {
        const Index size = places(part);
        std::copy_n(part.tokens.begin(), size, inputs + filled);
        if (documents) std::fill_n(documents + filled, size, static_cast<std::int32_t>(count));
        for (const Range& answer : part.answers) {
          for (Index at = std::max<Index>(answer.begin, 1); at < answer.end(); ++at)
            targets[filled + at - 1] = part.tokens[static_cast<std::size_t>(at)];
        }
        filled += size;
        return ++count < row.documents;
      });
    }
    std::fill(inputs + filled, inputs + options_.length, options_.padding);
    if (documents) std::fill(documents + filled, documents + options_.length, -1);
  }

 private:
  struct Row {
    std::size_t source = 0;
    Index first = 0, begin = 0;  ///< the first document, and its first token in the row
    Index documents = 0, counted = 0;
  };
  struct Source {
    TrainingDocuments documents;
    Index rows;
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

  /// Calls take(part, its first token) for the parts of a document from a token on, while that returns true. The last
  /// token of a part, which is only a target, is the first input of the next one.
  template <class Take>
  void for_each_part(const TrainingDocument& document, Index begin, Take take) const {
    const Index size = std::ssize(document.tokens);
    if (size <= options_.length + 1) {
      take(document, 0);
      return;
    }
    for (bool more = true; more && begin + 1 < size; begin += options_.length) {
      const Range all{begin, std::min(options_.length + 1, size - begin)};
      const auto first = document.tokens.begin() + begin;
      TrainingDocument part{{first, first + all.size}, {}};
      for (const Range& answer : document.answers) {
        const Range seen = intersection(all, answer);
        if (seen.size > 0) part.answers.push_back({seen.begin - begin, seen.size});
      }
      if (targets(part) > 0) more = take(part, begin);
      if (options_.long_documents == LongDocuments::cut) break;
    }
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
  std::vector<Source> sources_;
  std::vector<Row> rows_;
  Index documents_count_ = 0;
  Index places_ = 0;  ///< positions filled in all rows
  Index long_ = 0, dropped_ = 0;
};

}  // namespace shardwise::llm
