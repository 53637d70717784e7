// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How a Llama is divided into the stages of a pipeline.

#include <algorithm>

#include <shardwise/models/llama/config.hpp>

namespace shardwise {

/// Some of a Llama's layers, from the first on so many; with what comes before them all, or after. Of the first there may be
/// the MLP alone, and of the last the attention.
struct LlamaPart {
  Index first_layer = 0, layers = 0;
  bool begins = true, ends = true;
  bool begins_with_mlp = false, ends_with_attention = false;

  /// Stage number `stage` of `stages`, each of which begins where what is computed before it is nearest to its share, between
  /// two layers or within one.
  static constexpr LlamaPart of(const LlamaConfig& config, int stages, int stage) {
    if (stages == 1) return {0, config.layers};
    const double attention = config.checked().attention_in_layers(),
                 all = static_cast<double>(config.layers) + config.head_in_layers();
    const auto halves_before = [&](int which) {
      const double share = which == stages ? all : all * which / stages;
      const auto whole = std::min(config.layers, static_cast<Index>(share));
      const double rest = share - static_cast<double>(whole);
      return std::min(2 * config.layers,
                      2 * whole + (2 * rest > attention ? 1 : 0) + (2 * rest > 1 + attention ? 1 : 0));
    };
    const Index first = halves_before(stage), last = halves_before(stage + 1);
    if (first == last) return {first / 2, 0, stage == 0, stage + 1 == stages};
    return {first / 2,    (last + 1) / 2 - first / 2, stage == 0, stage + 1 == stages, first % 2 != 0,
            last % 2 != 0};
  }
  /// What it computes, in layers.
  constexpr double in_layers(const LlamaConfig& config) const {
    const double attention = config.attention_in_layers();
    return static_cast<double>(layers) - (begins_with_mlp ? attention : 0) -
           (ends_with_attention ? 1 - attention : 0) + (ends ? config.head_in_layers() : 0);
  }
};

}  // namespace shardwise
