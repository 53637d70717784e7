// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Where the stages of a pipeline begin in a Llama, in half layers: the first half of a layer is its attention, the
/// second its MLP.

#include <shardwise/models/llama/config.hpp>

namespace shardwise::detail {

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

}  // namespace shardwise::detail
