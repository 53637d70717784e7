// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The data for training or evaluation.

#include <algorithm>
#include <utility>
#include <variant>

#include <shardwise/data/load_batch.hpp>
#include <shardwise/data/token_corpus.hpp>

#include "trained_model.hpp"

namespace tools {

/// Replicas that train alone, and the number of this rank's.
struct Replicas {
  sw::Index count = 1, own = 0;
};

/// Text as one sequence of tokens, or documents; and its assignment to steps. Of the sampler's steps, replicas that
/// train alone take turns.
class TextData {
 public:
  TextData(const sw::TokenCorpus& corpus, const sw::BatchOptions& options, Replicas replicas)
      : source_(corpus), sampler_(corpus.size(), options), replicas_(replicas) {}
  TextData(const sw::DocumentRows& rows, const sw::BatchOptions& options, Replicas replicas)
      : source_(rows), sampler_(rows.sampler(options)), replicas_(replicas) {}

  const sw::BatchSampler& sampler() const { return sampler_; }
  sw::Index steps_per_epoch() const {
    return std::max<sw::Index>(1, sampler_.steps_per_epoch() / replicas_.count);
  }
  /// Whether an epoch of the sampler has such a step of this replica.
  bool has(sw::Index step) const { return own_step(step) < sampler_.steps_per_epoch(); }
  /// Null for a sequence of tokens.
  const sw::DocumentRows* rows() const { return std::get_if<sw::DocumentRows>(&source_); }
  /// The number of targets in a step, of all replicas.
  sw::Index counted(sw::Index step) const {
    sw::Index sum = 0;
    for (sw::Index own = step * replicas_.count; own < (step + 1) * replicas_.count; ++own)
      sum += rows() ? rows()->counted(sampler_, own) : sampler_.counted(own);
    return sum;
  }
  sw::LoadedBatch<Mesh> load(const Mesh& stage, sw::Index step, sw::Index micro_batch) const {
    return std::visit(
        [&](const auto& source) {
          return sw::load_batch(stage, source, sampler_, own_step(step), micro_batch);
        },
        source_);
  }

 private:
  sw::Index own_step(sw::Index step) const { return step * replicas_.count + replicas_.own; }

  std::variant<sw::TokenCorpus, sw::DocumentRows> source_;
  sw::BatchSampler sampler_;
  Replicas replicas_;
};

}  // namespace tools
