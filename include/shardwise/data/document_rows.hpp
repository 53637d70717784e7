// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Documents of different lengths as rows of one length: each in a row of its own, or several in a row with borders
/// between them. What is no answer is no target.
///
/// ```
/// const DocumentRows rows(documents, {.length = 1024, .packed = true});
/// const BatchSampler sampler = rows.sampler({.batch = 8, .seed = 1});
/// auto batch = load_batch(mesh, rows, sampler, step);   // batch.documents: which token is of which document
/// ```

#include <shardwise/data/batch_sampler.hpp>
#include <shardwise/io/fingerprint.hpp>

namespace shardwise {

/// A text's tokens, and those of them that are to be learned, as predictions from the tokens before.
struct TrainingDocument {
  std::vector<std::int32_t> tokens;
  std::vector<Range> answers;     ///< parts of the tokens, in their order
  std::string place = {};         ///< where it is from, for errors: "FILE:LINE"
  bool has_special_text = false;  ///< special tokens are written in its text, and are ordinary text there
};

/// A number that differs between lists: of tokens and answers.
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

/// Takes a part of the documents out of a list, at least one and not all, chosen by `seed`. Both keep their order. Throws
/// `std::invalid_argument` if there is one document only, or the part is not in (0, 1).
inline std::vector<TrainingDocument> hold_out(std::vector<TrainingDocument>& documents, double part,
                                              std::uint64_t seed) {
  const auto count = static_cast<Index>(documents.size());
  if (count < 2 || !(part > 0 && part < 1)) {
    detail::fail({"hold_out: ", part, " of ", count, " documents: expected a part in (0, 1) of 2 or more"});
  }
  const Index wanted = std::clamp<Index>(static_cast<Index>(part * static_cast<double>(count)), 1, count - 1);
  const Permutation order(count, seed, std::numeric_limits<std::uint64_t>::max());  // of no epoch
  std::vector<TrainingDocument> held_out, kept;
  for (Index i = 0; i < count; ++i) {
    (order(i) < wanted ? held_out : kept).push_back(std::move(documents[static_cast<std::size_t>(i)]));
  }
  documents = std::move(kept);
  return held_out;
}

struct RowOptions {
  Index length = 0;          ///< of a row; a document has one token more, as the last is a target alone
  bool packed = false;       ///< a row takes documents, in their order, as long as they fit
  std::int32_t padding = 0;  ///< the input where no document is
  Index ignore_index = ignore_index_default;  ///< the target of what is not to be learned, negative
};

/// In memory, as documents: four bytes a token.
class DocumentRows {
 public:
  /// Throws `std::invalid_argument`, which names the document's place, if one is longer than a row, has nothing to be
  /// learned, or answers that are none of its tokens or have some in common.
  DocumentRows(std::vector<TrainingDocument> documents, const RowOptions& options)
      : options_(options), documents_(std::move(documents)) {
    if (options.length < 1)
      detail::fail({"DocumentRows: length is ", options.length, ": expected at least 1"});
    Index filled = 0;  // of the last row
    for (Index i = 0; i < this->documents(); ++i) {
      const TrainingDocument& document = documents_[static_cast<std::size_t>(i)];
      const Index counted = checked(document);
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
  Index documents() const { return static_cast<Index>(documents_.size()); }
  const RowOptions& options() const { return options_; }
  /// Which part of all rows is documents.
  double filled() const {
    return static_cast<double>(places_) / static_cast<double>(size() * options_.length);
  }

  /// Which rows make which step: the length and `ignore_index` of the options are those of the rows. Throws as
  /// `BatchSampler` does.
  BatchSampler sampler(BatchOptions options) const {
    options.length = options_.length;
    options.ignore_index = options_.ignore_index;
    if (options.last == LastBatch::drop && size() < options.batch) {
      detail::fail({"DocumentRows: there are ", size(), " rows, but a step needs ", options.batch,
                    ", unless the last batch is padded"});
    }
    return {size() * options_.length + 1, options};  // so many tokens make as many sequences
  }

  /// How many targets of a row count, and of a step.
  Index counted(Index row) const { return rows_.at(static_cast<std::size_t>(row)).counted; }
  Index counted(const BatchSampler& sampler, Index step) const {
    Index targets = 0;
    for (const auto row : sampler.sequences(step)) targets += row ? counted(*row) : 0;
    return targets;
  }

  /// Writes a row; without a number one of padding. `documents`, if not null, become the numbers of its documents, from 0 on,
  /// and -1 for padding.
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

  /// Of a row: its last token is a target alone.
  static Index places(const TrainingDocument& document) {
    return std::max<Index>(std::ssize(document.tokens) - 1, 0);
  }

  /// How many of its targets count, if it fits.
  Index checked(const TrainingDocument& document) const {
    const Index size = std::ssize(document.tokens);
    auto fail = [&](std::initializer_list<detail::TextPart> what) {
      detail::fail({document.place.empty() ? "a document" : document.place, ": ", detail::text(what)});
    };
    if (size > options_.length + 1) {
      fail({"the document has ", size, " tokens, but a row of ", options_.length, " takes ",
            options_.length + 1});
    }
    Index before = 0, counted = 0;
    for (const Range& answer : document.answers) {
      if (answer.begin < before || answer.size < 0 || answer.end() > size) {
        fail({"an answer is [", answer.begin, ", ", answer.end(), "): expected a part of what is left, [",
              before, ", ", size, ")"});
      }
      before = answer.end();
      counted += std::max<Index>(before - std::max<Index>(answer.begin, 1), 0);
    }
    if (counted == 0) fail({"the document has nothing to be learned"});
    return counted;
  }

  RowOptions options_;
  std::vector<TrainingDocument> documents_;
  std::vector<Row> rows_;
  Index places_ = 0;  ///< of all rows that are filled
};

}  // namespace shardwise
