// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Divides a Llama into the stages of a pipeline.

#include <shardwise/models/llama/stage_borders.hpp>
#include <shardwise/schedule/costs.hpp>

namespace shardwise {

/// `layers` consecutive layers of a Llama from `first_layer` on; optionally with everything before the layers
/// (`begins`) or after them (`ends`). The first may consist of its MLP alone, the last of its attention.
struct LlamaPart {
  Index first_layer = 0, layers = 0;
  bool begins = true, ends = true;
  bool begins_with_mlp = false, ends_with_attention = false;

  /// Stage number `stage` of a pipeline whose stage i is on rank `rank_of_stage[i]`. Each stage first begins where the
  /// work before it is nearest to its share, between or within layers; then borders move by half layers, one or two at
  /// a time, as long as this balances the ranks better. Throws `std::out_of_range` if there is no such stage or rank.
  static constexpr LlamaPart of(const LlamaConfig& config, const std::vector<int>& rank_of_stage, int stage) {
    const auto stages = static_cast<int>(rank_of_stage.size());
    if (stage < 0 || stage >= stages) {
      detail::fail<std::out_of_range>({"LlamaPart: there is no stage ", stage, " of ", stages});
    }
    return between(detail::halves_before(config.checked(), rank_of_stage), static_cast<std::size_t>(stage));
  }
  /// The costs of one micro-batch, in layers: a third of a layer each for forward, backward of inputs and backward
  /// of weights. The head counts only in the forward, where `LinearCrossEntropyLoss` also computes its gradients.
  constexpr StageCosts costs(const LlamaConfig& config) const {
    const double attention = config.attention_in_layers();
    const double third = (static_cast<double>(layers) - (begins_with_mlp ? attention : 0) -
                          (ends_with_attention ? 1 - attention : 0)) /
                         3;
    return {third + (ends ? config.head_in_layers() : 0), third, third};
  }
  /// The costs of each stage of a pipeline, divided as by `of`; messages as in `LlamaConfig::message_in_layers`.
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
