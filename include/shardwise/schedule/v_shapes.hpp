// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Schedules in which each rank has two stages in a V shape: rank r has the stages r and 2 · ranks - 1 - r. So the
/// loss is on the rank of the first stage, and backwards begin on the rank that would otherwise wait longest.

#include <algorithm>

#include <shardwise/schedule/pipeline_schedule.hpp>

namespace shardwise {

namespace detail {

/// Appends a rank's actions. Chunk 0 is its stage on the way to the last rank, chunk 1 that on the way back. Each
/// kind of work processes the micro-batches in order; actions beyond the last one are dropped.
class VShape {
 public:
  constexpr VShape(PipelineSchedule& schedule, int rank)
      : actions_(at(schedule.actions, rank)),
        stages_{rank, schedule.stages() - 1 - rank},
        micro_batches_(schedule.micro_batches) {}

  constexpr void forward(int chunk) { add(Work::forward, chunk, forwards_[chunk]++); }
  constexpr void backward(int chunk) { add(Work::backward, chunk, backwards_[chunk]++); }
  constexpr void backward_input(int chunk) { add(Work::backward_input, chunk, backwards_[chunk]++); }
  /// The backward of weights for the oldest backward of inputs, of either chunk, that still lacks it.
  constexpr void backward_weight() {
    std::size_t i = waiting_;
    while (i < actions_.size() && actions_[i].work != Work::backward_input) ++i;
    if (i == actions_.size()) return;
    waiting_ = i + 1;
    actions_.push_back({Work::backward_weight, actions_[i].stage, actions_[i].micro_batch});
  }
  /// The same for one chunk.
  constexpr void backward_weight(int chunk) { add(Work::backward_weight, chunk, weights_[chunk]++); }
  constexpr void forward_and_backward(int forward_chunk, int backward_chunk) {
    forward(forward_chunk);
    actions_.back().overlaps_next = true;
    backward(backward_chunk);
  }

 private:
  constexpr void add(Work work, int chunk, int micro_batch) {
    if (micro_batch < micro_batches_) actions_.push_back({work, stages_[chunk], micro_batch});
  }

  std::vector<Action>& actions_;
  const int stages_[2];
  const int micro_batches_;
  int forwards_[2] = {}, backwards_[2] = {}, weights_[2] = {};
  std::size_t waiting_ = 0;
};

}  // namespace detail

/// No rank is idle between its first action and its last, if forward, backward of inputs and backward of weights
/// take the same time and there are at least 2 · ranks - 1 micro-batches (with fewer, the table is the same without
/// the missing ones). It keeps the activations of as many micro-batches as 1F1B (Qi et al., "Zero Bubble Pipeline
/// Parallelism", 2023: ZB-V). Throws `std::invalid_argument` if a size is below 1.
constexpr PipelineSchedule zb_v(int ranks, int micro_batches) {
  PipelineSchedule schedule = detail::empty_schedule("zb_v", ranks, 2, micro_batches, detail::Division::v);
  const int total = std::max(micro_batches, 2 * ranks - 1);
  for (int rank = 0; rank < ranks; ++rank) {
    detail::VShape add(schedule, rank);
    auto backward_at_once = [&](int chunk) {
      add.backward_input(chunk);
      add.backward_weight(chunk);
    };
    const int to_the_end = ranks - rank;
    // Until the first micro-batch returns, and then until backwards of both chunks arrive.
    for (int i = 0; i < 2 * to_the_end - 1; ++i) add.forward(0);
    for (int i = 0; i < rank; ++i) {
      add.forward(1);
      add.forward(0);
    }
    for (int i = 0; i < to_the_end; ++i) {
      add.forward(1);
      backward_at_once(1);
    }
    for (int i = 0; i < total - ranks; ++i) {
      add.forward(0);
      backward_at_once(0);
      add.forward(1);
      backward_at_once(1);
    }
    // Only backwards are left: those of inputs as early as possible, those of weights fill the end.
    for (int i = 0; i < rank; ++i) {
      add.backward_input(0);
      add.backward_input(1);
    }
    for (int i = 0; i < to_the_end; ++i) backward_at_once(0);
    for (int i = 0; i < rank; ++i) add.backward_weight(1);
    for (int i = 0; i < rank; ++i) add.backward_weight(0);
  }
  return schedule;
}

/// Forwards of one chunk overlap backwards of the other, so that one computes while the other communicates
/// (DeepSeek, "DualPipe", github.com/deepseek-ai/DualPipe, 2025: the eight phases are those of DualPipeV). Throws
/// `std::invalid_argument` if a size is below 1, or if there are fewer than 2 · ranks micro-batches.
constexpr PipelineSchedule dualpipe_v(int ranks, int micro_batches) {
  PipelineSchedule schedule =
      detail::empty_schedule("dualpipe_v", ranks, 2, micro_batches, detail::Division::v);
  if (micro_batches < 2 * ranks) {
    detail::fail(
        {"dualpipe_v: ", micro_batches, " micro-batches; expected at least twice the ", ranks, " ranks"});
  }
  for (int rank = 0; rank < ranks; ++rank) {
    detail::VShape add(schedule, rank);
    const int after = ranks - 1 - rank;  // ranks after this one
    for (int i = 0; i < 2 * after; ++i) add.forward(0);
    for (int i = 0; i <= rank; ++i) {
      add.forward(0);
      add.forward(1);
    }
    for (int i = 0; i < after; ++i) {
      add.backward_input(1);
      add.backward_weight();
      add.forward(1);
    }
    for (int i = 0; i < micro_batches - 2 * ranks + rank + 1; ++i) {
      // The last rank's first forward has no backward to overlap with.
      if (i == 0 && after == 0) {
        add.forward(0);
        add.backward(1);
      } else {
        add.forward_and_backward(0, 1);
      }
      add.forward_and_backward(1, 0);
    }
    for (int i = 0; i < after; ++i) {
      add.backward(1);
      add.forward_and_backward(1, 0);
    }
    for (int i = 0; i < 2 * (rank + 1); ++i) {  // the second half postpones the weights to the end
      const int chunk = i % 2 == 0 ? 1 : 0;
      i <= rank ? add.backward(chunk) : add.backward_input(chunk);
    }
    for (int i = 0; i < after; ++i) {
      add.backward_weight();
      add.backward_input(0);
    }
    for (int i = 0; i <= rank; ++i) add.backward_weight();
  }
  return schedule;
}

}  // namespace shardwise
