// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The data for training or evaluation.

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include <shardwise/llm/data/load_batch.hpp>
#include <shardwise/llm/data/token_corpus.hpp>
#include <shardwise/llm/data/token_stream.hpp>

#include "../common/trained_model.hpp"

namespace tools {

/// Replicas that train alone, and the number of this rank's.
struct Replicas {
  sw::Index count = 1, own = 0;
};

/// Corpora whose tokens follow one another, as in a mix.
class TokenCorpora {
 public:
  void add(sw::llm::TokenCorpus corpus) {
    size_ += corpus.size();
    parts_.push_back(std::move(corpus));
  }
  sw::Index size() const { return size_; }
  /// As those of `TokenCorpus`.
  void copy(sw::Index begin, std::span<std::int32_t> to) const {
    for_each_part(begin, std::ssize(to),
                  [&](const sw::llm::TokenCorpus& part, sw::Index first, sw::Index count) {
                    part.copy(first, to.first(static_cast<std::size_t>(count)));
                    to = to.subspan(static_cast<std::size_t>(count));
                  });
  }
  void read_ahead(sw::Index begin, sw::Index count) const {
    for_each_part(begin, count, [](const sw::llm::TokenCorpus& part, sw::Index first, sw::Index of_part) {
      part.read_ahead(first, of_part);
    });
  }

 private:
  template <class F>
  void for_each_part(sw::Index begin, sw::Index count, F f) const {
    if (begin < 0 || count > size_ - begin)
      throw std::out_of_range("TokenCorpora: tokens " + std::to_string(begin) + " to " +
                              std::to_string(begin + count) + " of " + std::to_string(size_));
    for (const sw::llm::TokenCorpus& part : parts_) {
      const sw::Index own = std::clamp<sw::Index>(part.size() - begin, 0, count);
      if (own > 0) f(part, begin, own);
      begin = std::max<sw::Index>(begin - part.size(), 0);
      count -= own;
    }
  }

  std::vector<sw::llm::TokenCorpus> parts_;
  sw::Index size_ = 0;
};

/// Text as sequences of tokens, or documents; and their assignment to steps. Of the sampler's steps, replicas that
/// train alone take turns.
class TextData {
 public:
  TextData(const TokenCorpora& corpora, const sw::llm::BatchSampler& sampler, Replicas replicas)
      : source_(corpora), sampler_(sampler), replicas_(replicas) {}
  TextData(const sw::llm::DocumentRows& rows, const sw::llm::BatchSampler& sampler, Replicas replicas)
      : source_(rows), sampler_(sampler), replicas_(replicas) {}
  TextData(std::shared_ptr<sw::llm::TokenStream> stream, const sw::llm::BatchSampler& sampler,
           Replicas replicas)
      : source_(std::move(stream)), sampler_(sampler), replicas_(replicas) {}

  const sw::llm::BatchSampler& sampler() const { return sampler_; }
  sw::Index steps_per_epoch() const {
    return std::max<sw::Index>(1, sampler_.steps_per_epoch() / replicas_.count);
  }
  /// Whether an epoch of the sampler has such a step of this replica.
  bool has(sw::Index step) const { return own_step(step) < sampler_.steps_per_epoch(); }
  /// Null for sequences of tokens.
  const sw::llm::DocumentRows* rows() const { return std::get_if<sw::llm::DocumentRows>(&source_); }
  /// Null for tokens that are not made while the model trains.
  sw::llm::TokenStream* stream() const {
    const auto* shared = std::get_if<std::shared_ptr<sw::llm::TokenStream>>(&source_);
    return shared ? shared->get() : nullptr;
  }
  /// Gets the tokens of a step of all replicas, if they are made meanwhile. Collective.
  void fetch(sw::Index step) const {
    if (stream()) stream()->fetch(sampler_, step * replicas_.count, replicas_.count);
  }
  /// The number of targets in a step, of all replicas.
  sw::Index counted(sw::Index step) const {
    sw::Index sum = 0;
    for (sw::Index own = step * replicas_.count; own < (step + 1) * replicas_.count; ++own)
      sum += rows() ? rows()->counted(sampler_, own) : sampler_.counted(own);
    return sum;
  }
  sw::llm::LoadedBatch<Mesh> load(const Mesh& stage, sw::Index step, sw::Index micro_batch) const {
    const auto load_from = [&](const auto& source) {
      return sw::llm::load_batch(stage, source, sampler_, own_step(step), micro_batch);
    };
    if (stream()) return load_from(*stream());
    return rows() ? load_from(*rows()) : load_from(std::get<TokenCorpora>(source_));
  }

 private:
  sw::Index own_step(sw::Index step) const { return step * replicas_.count + replicas_.own; }

  std::variant<TokenCorpora, sw::llm::DocumentRows, std::shared_ptr<sw::llm::TokenStream>> source_;
  sw::llm::BatchSampler sampler_;
  Replicas replicas_;
};

}  // namespace tools
