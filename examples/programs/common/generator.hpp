// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Texts for many prompts at once: the tokens of a `ContinuousBatch`, decoded.

#include <map>
#include <memory>

#include <shardwise/llm/decoding/continuous_batch.hpp>
#include <shardwise/tensor/distribute.hpp>

#include "text_model.hpp"
#include "text_request.hpp"
#include "text_stream.hpp"

namespace tools {

/// A model in stages, and its cache.
template <class Model>
class CachedModelOf final : public sw::llm::DecodingModel {
 public:
  CachedModelOf(Model& model, sw::Index cached, sw::Index tokens)
      : DecodingModel(cached, tokens, model.config().vocabulary),
        model_(model),
        cache_(model.make_cache(
            batch_of(model.mesh(), std::vector<std::int32_t>(static_cast<std::size_t>(cached)), cached),
            tokens)) {}

  void clear(sw::Index row, sw::Index kept) override { cache_.clear(row, kept); }
  void next(std::span<const sw::Index> some, std::span<const std::int32_t> ids, std::span<double> numbers,
            const std::function<void(const float*)>& f) override {
    cache_.select(some);
    model_.next(batch_of(model_.mesh(), ids, std::ssize(some)), cache_, numbers,
                [&](const auto& logits) { f(logits.data()); });
  }

 private:
  Model& model_;
  typename Model::Cache cache_;
};

/// Writes texts with a model. All ranks make the same calls with the same requests, and get the same tokens. A text
/// does not depend on the others, unless `reuses_rows`. One that cannot be computed ends alone, with
/// `TextEnd::failed`.
class Generator {
 public:
  /// As `ContinuousBatch`. Without `decode`, texts are empty.
  Generator(std::unique_ptr<sw::llm::DecodingModel> model, KnownIds known, Decode decode = {},
            bool reuses_rows = false)
      : batch_(std::move(model), std::move(known), reuses_rows), decode_(std::move(decode)) {}

  /// Returns the request's number. Throws `std::invalid_argument` for a request that cannot be computed.
  std::size_t add(const TextRequest& request) {
    request.check_stops(static_cast<bool>(decode_));
    const std::size_t number = batch_.add(request);
    texts_.emplace(number, TextStream(decode_, request.prompt, request.stops));
    return number;
  }
  /// Forgets a request, if it has not ended.
  void cancel(std::size_t number) {
    batch_.cancel(number);
    texts_.erase(number);
  }
  /// Whether there are requests that have not ended.
  bool busy() const { return batch_.busy(); }
  /// The number of tokens that the model has computed.
  sw::Index computed() const { return batch_.computed(); }

  /// New tokens, as `ContinuousBatch::step`, and their texts. Collective.
  std::vector<NewToken> step() {
    std::vector<NewToken> result;
    for (sw::llm::GeneratedToken& from : batch_.step()) {
      NewToken& token = result.emplace_back(NewToken{from.request, from.id, std::move(from.problem),
                                                     static_cast<TextEnd>(from.end), from.log_probability,
                                                     std::move(from.most_probable)});
      if (token.end != TextEnd::failed) add_text(texts_.at(token.request), token);
      if (token.end != TextEnd::none) cancel(token.request);
    }
    return result;
  }

 private:
  /// The text that a token adds, and whether it ends the text.
  void add_text(TextStream& stream, NewToken& token) const {
    try {
      if (decode_ && token.end != TextEnd::token) {
        token.text = stream.add(token.id);
        if (stream.stopped()) token.end = TextEnd::text;
      }
      if (token.end != TextEnd::none) token.text += stream.rest();
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {  // a limit of the tokenizer's decoder: the same on all ranks
      token.text = error.what();
      token.end = TextEnd::failed;
    }
  }

  sw::llm::ContinuousBatch batch_;
  Decode decode_;
  std::map<std::size_t, TextStream> texts_;  ///< of requests that have not ended
};

}  // namespace tools
