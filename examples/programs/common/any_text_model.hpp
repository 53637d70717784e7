// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A model for texts, independent of the type of its weights: compiled once for all programs.

#include <filesystem>

#include "generator.hpp"

namespace tools {

/// All ranks make the same calls.
class AnyTextModel {
 public:
  virtual ~AnyTextModel() = default;
  /// Loads the weights; returns the bytes that this rank read.
  virtual sw::Index load_from(const std::filesystem::path& weights) = 0;
  /// A cache of `rows` texts, which must not outlive the model, each of up to `capacity` tokens.
  virtual std::unique_ptr<sw::llm::DecodingModel> make_cache(sw::Index rows, sw::Index capacity) = 0;
  /// Σ log p(ids[i] | all before it) over i ≥ `first` ≥ 1, on every rank. Throws `std::runtime_error` unless it is
  /// finite.
  virtual double log_likelihood(std::span<const std::int32_t> ids, std::size_t first) = 0;
  /// Writes a file with `ids` as "input_ids", and with their "logits".
  virtual void write_logits(const std::filesystem::path& to, std::span<const std::int32_t> ids) = 0;
};

/// A model without values, whose weights have so many bits: 32, 16, 8 or 4.
std::unique_ptr<AnyTextModel> make_text_model(const Job& job, const sw::llm::LlamaConfig& config, int bits);

}  // namespace tools
