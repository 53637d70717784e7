// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The data for training or evaluation.

#include <utility>
#include <variant>

#include <shardwise/data/load_batch.hpp>
#include <shardwise/data/token_corpus.hpp>

#include "trained_model.hpp"

namespace tools {

/// Text as one sequence of tokens, or documents; and its assignment to steps.
class TextData {
 public:
  TextData(const sw::TokenCorpus& corpus, const sw::BatchOptions& options)
      : source_(corpus), sampler_(corpus.size(), options) {}
  TextData(const sw::DocumentRows& rows, const sw::BatchOptions& options)
      : source_(rows), sampler_(rows.sampler(options)) {}

  const sw::BatchSampler& sampler() const { return sampler_; }
  /// Null for a sequence of tokens.
  const sw::DocumentRows* rows() const { return std::get_if<sw::DocumentRows>(&source_); }
  /// The number of targets in a step.
  sw::Index counted(sw::Index step) const {
    return rows() ? rows()->counted(sampler_, step) : sampler_.counted(step);
  }
  sw::LoadedBatch<Mesh> load(const Mesh& stage, sw::Index step, sw::Index micro_batch) const {
    return std::visit(
        [&](const auto& source) { return sw::load_batch(stage, source, sampler_, step, micro_batch); },
        source_);
  }

 private:
  std::variant<sw::TokenCorpus, sw::DocumentRows> source_;
  sw::BatchSampler sampler_;
};

}  // namespace tools
