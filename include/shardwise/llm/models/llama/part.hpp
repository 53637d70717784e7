// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Divides a Llama into the stages of a pipeline, which begin between or within layers: the first half of a layer is
/// its attention, the second its MLP.

#include <shardwise/llm/models/llama/config.hpp>
#include <shardwise/llm/namespaces.hpp>
#include <shardwise/schedule/costs.hpp>

namespace shardwise::llm {

namespace detail {

/// The number of half layers before each stage, and in total. Throws `std::out_of_range` unless ranks are in [0,
/// stages).
[[gnu::noinline]] constexpr std::vector<Index> halves_before(const LlamaConfig& config,
                                                             const std::vector<int>& rank_of_stage) {
  const std::size_t stages = rank_of_stage.size();
  for (const int rank : rank_of_stage) {
    if (rank < 0 || static_cast<std::size_t>(rank) >= stages) {
      detail::fail<std::out_of_range>({"LlamaPart: a stage is on rank ", rank, "; expected 0 to ", stages - 1,
                                       ", one for each of the stages"});
    }
  }
  const double attention = config.attention_in_layers(), head = config.head_in_layers();
  const auto layers = [=](Index halves) {
    const Index whole = halves / 2;
    return static_cast<double>(whole) + (halves % 2 != 0 ? attention : 0);
  };
  const double share = (static_cast<double>(config.layers) + head) / static_cast<double>(stages);
  std::vector<Index> before(stages + 1, 2 * config.layers);
  before[0] = 0;
  for (std::size_t stage = 1; stage < stages; ++stage) {
    const double wanted = share * static_cast<double>(stage);
    Index& halves = before[stage];
    while (halves > before[stage - 1] && layers(halves) + layers(halves - 1) > 2 * wanted) --halves;
  }
  std::vector<double> work(stages, 0);  // of each rank
  double squares = 0;                   // their sum: least when the work is balanced
  const auto give = [&](std::size_t stage, double more) {
    double& of_rank = work.at(static_cast<std::size_t>(rank_of_stage[stage]));
    squares -= of_rank * of_rank;
    of_rank += more;
    squares += of_rank * of_rank;
  };
  for (std::size_t stage = 0; stage < stages; ++stage)
    give(stage, layers(before[stage + 1]) - layers(before[stage]) + (stage + 1 == stages ? head : 0));
  const auto move = [&](std::size_t border, Index by) {
    const double more = layers(before[border] + by) - layers(before[border]);
    before[border] += by;
    give(border - 1, more);
    give(border, -more);
  };
  const auto in_order = [&](std::size_t border) {
    return before[border - 1] <= before[border] && before[border] <= before[border + 1];
  };
  double least = squares;
  for (bool better = true; std::exchange(better, false);) {
    std::vector<Index> best = before;
    const auto attempt = [&] {
      if (squares >= least * (1 - 1e-9)) return;
      least = squares;
      best = before;
      better = true;
    };
    for (std::size_t first = 1; first < stages; ++first) {
      for (const Index by : {1, -1}) {
        move(first, by);
        if (in_order(first)) attempt();
        for (std::size_t second = first + 1; second < stages; ++second) {
          for (const Index other_by : {1, -1}) {
            move(second, other_by);
            if (in_order(first) && in_order(second)) attempt();
            move(second, -other_by);
          }
        }
        move(first, -by);
      }
    }
    for (std::size_t border = 1; border < stages; ++border) move(border, best[border] - before[border]);
  }
  return before;
}

}  // namespace detail

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

}  // namespace shardwise::llm
