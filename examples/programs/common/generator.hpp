// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Texts for many prompts at once: each has a row of the key/value cache, and the rows of texts that have ended go to
/// those that wait.

#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include <shardwise/tensor/distribute.hpp>

#include "text_model.hpp"
#include "text_request.hpp"
#include "text_stream.hpp"

namespace tools {

/// A model and a cache, without their types. All ranks make the same calls.
class CachedModel {
 public:
  virtual ~CachedModel() = default;
  /// Of the cache; and the number of logits.
  virtual sw::Index rows() const = 0;
  virtual sw::Index capacity() const = 0;
  virtual sw::Index vocabulary() const = 0;
  /// Forgets the tokens of a row, except the first.
  virtual void clear(sw::Index row, sw::Index kept) = 0;
  /// f(logits) for the tokens after `ids`, [rows, tokens], of these rows of the cache: [rows, vocabulary]. See
  /// `TextModel::next`.
  virtual void next(std::span<const sw::Index> rows, std::span<const std::int32_t> ids,
                    std::span<double> numbers, const std::function<void(const float* logits)>& f) = 0;
};

template <class Model>
class CachedModelOf final : public CachedModel {
 public:
  CachedModelOf(Model& model, sw::Index rows, sw::Index capacity)
      : model_(model),
        cache_(model.make_cache(
            batch_of(model.mesh(), std::vector<std::int32_t>(static_cast<std::size_t>(rows)), rows),
            capacity)),
        rows_(rows),
        capacity_(capacity) {}

  sw::Index rows() const override { return rows_; }
  sw::Index capacity() const override { return capacity_; }
  sw::Index vocabulary() const override { return model_.config().vocabulary; }
  void clear(sw::Index row, sw::Index kept) override { cache_.clear(row, kept); }
  void next(std::span<const sw::Index> rows, std::span<const std::int32_t> ids, std::span<double> numbers,
            const std::function<void(const float*)>& f) override {
    cache_.select(rows);
    model_.next(batch_of(model_.mesh(), ids, std::ssize(rows)), cache_, numbers,
                [&](const auto& logits) { f(logits.data()); });
  }

 private:
  Model& model_;
  typename Model::Cache cache_;
  sw::Index rows_, capacity_;
};

/// Writes texts with a model. All ranks make the same calls with the same requests, and get the same tokens. A text
/// does not depend on the others, unless `reuses_rows`. One that cannot be computed ends alone, with
/// `TextEnd::failed`.
class Generator {
 public:
  /// Tokens that are not `known` are never drawn. Without `decode`, texts are empty. `reuses_rows`: a prompt that begins as
  /// a row that is free is computed from there on, as in a dialogue; then rounding may differ.
  Generator(std::unique_ptr<CachedModel> model, KnownIds known, Decode decode = {}, bool reuses_rows = false)
      : model_(std::move(model)),
        rows_(static_cast<std::size_t>(model_->rows())),
        known_(std::move(known)),
        decode_(std::move(decode)),
        reuses_rows_(reuses_rows) {}

  /// Returns the request's number. Throws `std::invalid_argument` for a request that cannot be computed.
  std::size_t add(TextRequest request) {
    request.check(model_->vocabulary(), known_, static_cast<bool>(decode_));
    const sw::Index tokens = std::ssize(request.prompt);
    if (request.new_tokens > model_->capacity() - tokens) {
      throw std::invalid_argument(std::to_string(tokens) + " tokens of the prompt and " +
                                  std::to_string(request.new_tokens) + " new ones are more than the " +
                                  std::to_string(model_->capacity()) + " for which a row has room");
    }
    waiting_.push_back({next_, std::move(request)});
    return next_++;
  }
  /// Forgets a request, if it has not ended.
  void cancel(std::size_t number) {
    std::erase_if(waiting_, [&](const auto& each) { return each.first == number; });
    for (auto& row : rows_) {
      if (row.text && row.text->number == number) row.text.reset();
    }
  }
  /// Whether there are requests that have not ended.
  bool busy() const {
    return !waiting_.empty() ||
           std::ranges::any_of(rows_, [](const Row& row) { return row.text.has_value(); });
  }

  /// The number of tokens that the model has computed.
  sw::Index computed() const { return computed_; }

  /// One new token of each text that has a row; and of the text that waits longest, if a row is free. A prompt a step
  /// does not keep the other texts waiting for all prompts. Collective.
  std::vector<NewToken> step() {
    std::vector<NewToken> result;
    std::vector<sw::Index> active;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      if (rows_[row].text) active.push_back(static_cast<sw::Index>(row));
    }
    // Products of more rows would give other bits.
    for (std::size_t i = 0; i < active.size(); i += sw::kernel::few_rows) {
      const auto some =
          std::span(active).subspan(i, std::min<std::size_t>(sw::kernel::few_rows, active.size() - i));
      std::vector<std::int32_t> ids;
      for (const sw::Index row : some) ids.push_back(at(row).tokens.back());
      advance(some, ids, result);
    }
    if (waiting_.empty()) return result;
    auto& [number, request] = waiting_.front();
    const auto [row, known] = best_row(request.prompt);
    if (row < 0) return result;
    model_->clear(row, known);
    at(row).tokens = request.prompt;
    at(row).text.emplace(Text{number, request, TextStream(decode_, request.prompt, request.stops)});
    waiting_.pop_front();
    const std::vector<std::int32_t> ids(at(row).tokens.begin() + known, at(row).tokens.end());
    advance(std::array{row}, ids, result);
    return result;
  }

 private:
  struct Text {
    std::size_t number;
    TextRequest request;
    TextStream stream;
    sw::Index written = 0;
  };
  struct Row {
    std::optional<Text> text;
    std::vector<std::int32_t> tokens;  ///< all but the last new one are in the cache
  };

  Row& at(sw::Index row) { return rows_[static_cast<std::size_t>(row)]; }

  /// The free row for a prompt, or -1; and how many of the prompt's tokens it has already.
  std::pair<sw::Index, sw::Index> best_row(std::span<const std::int32_t> prompt) const {
    std::pair<sw::Index, sw::Index> best{-1, -1};
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      if (rows_[row].text) continue;
      const auto& held = rows_[row].tokens;
      const auto same = std::ranges::mismatch(prompt, held).in1 - prompt.begin();
      // The last token of a row is not in the cache; that of the prompt must be computed for its logits.
      const sw::Index most = std::min(std::ssize(prompt), std::ssize(held)) - 1;
      const sw::Index known = reuses_rows_ ? std::clamp<sw::Index>(same, 0, std::max<sw::Index>(most, 0)) : 0;
      if (known > best.second) best = {static_cast<sw::Index>(row), known};
    }
    return best;
  }

  /// Draws a token of a row, and writes it, its log-probability and the most probable ones. Throws
  /// `std::invalid_argument` if the logits are not finite.
  void draw(const Row& row, const float* logits, double* to) const {
    const TextRequest& request = row.text->request;
    std::span<const float> own(logits, static_cast<std::size_t>(known_.end));
    std::vector<float> without_holes, penalized;
    if (!known_.holes.empty()) {
      without_holes.assign(own.begin(), own.end());
      for (const std::int32_t id : known_.holes)
        without_holes[static_cast<std::size_t>(id)] = -std::numeric_limits<float>::infinity();
      own = without_holes;
    }
    if (request.repetition_penalty != 1)
      penalized = sw::llm::penalize_repetition(own, row.tokens, request.repetition_penalty);
    const std::int32_t id = sw::llm::sample(penalized.empty() ? own : penalized, request.sampling,
                                            request.seed, static_cast<std::uint64_t>(row.text->written));
    *to++ = id;
    if (request.most_probable < 0) return;
    *to++ = sw::llm::log_probability(own, id);
    for (const auto& [other, logarithm] :
         sw::llm::most_probable(own, std::min(request.most_probable, known_.count()))) {
      *to++ = other;
      *to++ = logarithm;
    }
  }
  /// The text that a token adds, and whether it ends the text.
  void add(Text& text, NewToken& token) const {
    if (std::ranges::count(text.request.ends, token.id) > 0) {
      token.end = TextEnd::token;
    } else if (decode_) {
      token.text = text.stream.add(token.id);
      if (text.stream.stopped()) token.end = TextEnd::text;
    }
    if (token.end == TextEnd::none && text.written == text.request.new_tokens) token.end = TextEnd::length;
    if (token.end != TextEnd::none) token.text += text.stream.rest();
  }
  /// Computes ids, [rows, tokens], and draws a token for each row.
  void advance(std::span<const sw::Index> rows, std::span<const std::int32_t> ids,
               std::vector<NewToken>& result) {
    computed_ += std::ssize(ids);
    sw::Index most = -1;
    for (const sw::Index row : rows) most = std::max(most, at(row).text->request.most_probable);
    const auto each = static_cast<std::size_t>(2 + 2 * std::clamp<sw::Index>(most, 0, known_.count()));
    std::vector<double> numbers(rows.size() *
                                each);  // of a row: the token, its log-probability, the most probable
    model_->next(rows, ids, numbers, [&](const float* logits) {
      for (std::size_t i = 0; i < rows.size(); ++i) {
        double* const to = &numbers[i * each];
        try {
          draw(at(rows[i]), logits + static_cast<sw::Index>(i) * model_->vocabulary(), to);
        } catch (const std::invalid_argument&) {
          *to = -1;  // ranks of other stages must learn it, too
        }
      }
    });
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double* from = &numbers[i * each];
      Row& row = at(rows[i]);
      Text& text = *row.text;
      NewToken token{text.number, static_cast<std::int32_t>(*from++), "", TextEnd::none};
      if (token.id < 0) {
        token.text =
            "the model's logits after " + std::to_string(row.tokens.size()) + " tokens are not finite";
        token.end = TextEnd::failed;
        row = {};  // no other text continues it
        result.push_back(std::move(token));
        continue;
      }
      if (text.request.most_probable >= 0) token.log_probability = *from++;
      for (sw::Index j = 0; j < std::min(text.request.most_probable, known_.count()); ++j, from += 2)
        token.most_probable.push_back({static_cast<std::int32_t>(from[0]), from[1]});
      row.tokens.push_back(token.id);
      ++text.written;
      try {
        add(text, token);
      } catch (const std::bad_alloc&) {
        throw;
      } catch (const std::exception& error) {  // a limit of the tokenizer's decoder: the same on all ranks
        token.text = error.what();
        token.end = TextEnd::failed;
      }
      if (token.end != TextEnd::none) row.text.reset();
      result.push_back(std::move(token));
    }
  }

  std::unique_ptr<CachedModel> model_;
  std::vector<Row> rows_;
  KnownIds known_;
  Decode decode_;
  bool reuses_rows_;
  std::deque<std::pair<std::size_t, TextRequest>> waiting_;
  std::size_t next_ = 0;
  sw::Index computed_ = 0;
};

}  // namespace tools
