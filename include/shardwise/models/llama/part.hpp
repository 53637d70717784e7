// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How a Llama is divided into the stages of a pipeline.

#include <shardwise/models/llama/stage_borders.hpp>
#include <shardwise/schedule/costs.hpp>

namespace shardwise {

/// Some of a Llama's layers, from the first on so many; with what comes before them all, or after. Of the first there may be
/// the MLP alone, and of the last the attention.
struct LlamaPart {
  Index first_layer = 0, layers = 0;
  bool begins = true, ends = true;
  bool begins_with_mlp = false, ends_with_attention = false;

  /// Stage number `stage` of a pipeline, whose stage i is on rank `rank_of_stage[i]`. At first each stage begins where what is
  /// computed before it is nearest to its share, between two layers or within one; then borders move by half layers, one or two
  /// at once, as long as that makes the work of ranks more alike. Throws `std::out_of_range` if there is no such stage or rank.
  static constexpr LlamaPart of(const LlamaConfig& config, const std::vector<int>& rank_of_stage, int stage) {
    const auto stages = static_cast<int>(rank_of_stage.size());
    if (stage < 0 || stage >= stages) {
      detail::fail<std::out_of_range>({"LlamaPart: there is no stage ", stage, " of ", stages});
    }
    return between(detail::halves_before(config.checked(), rank_of_stage), static_cast<std::size_t>(stage));
  }
  /// What one micro-batch takes in it, in layers: a third of a layer goes to each of forward, backward of inputs and of weights; the
  /// head is in the forward alone, as `LinearCrossEntropyLoss` has its gradients there.
  constexpr StageCosts costs(const LlamaConfig& config) const {
    const double attention = config.attention_in_layers();
    const double third = (static_cast<double>(layers) - (begins_with_mlp ? attention : 0) -
                          (ends_with_attention ? 1 - attention : 0)) /
                         3;
    return {third + (ends ? config.head_in_layers() : 0), third, third};
  }
  /// Of each stage of a pipeline, divided as by `of`; messages as by `LlamaConfig::message_in_layers`.
  static constexpr Costs costs(const LlamaConfig& config, const std::vector<int>& rank_of_stage) {
    const std::vector<Index> begins = detail::halves_before(config.checked(), rank_of_stage);
    Costs costs{.message = config.message_in_layers()};
    for (std::size_t stage = 0; stage < rank_of_stage.size(); ++stage) {
      costs.stages.push_back(between(begins, stage).costs(config));
    }
    return costs;
  }

 private:
  static constexpr LlamaPart between(const std::vector<Index>& begins, std::size_t stage) {
    const Index first = begins[stage], last = begins[stage + 1];
    LlamaPart part{
        .first_layer = first / 2, .layers = 0, .begins = stage == 0, .ends = stage + 2 == begins.size()};
    if (first == last) return part;
    part.layers = (last + 1) / 2 - part.first_layer;
    part.begins_with_mlp = first % 2 != 0;
    part.ends_with_attention = last % 2 != 0;
    return part;
  }
};

}  // namespace shardwise
