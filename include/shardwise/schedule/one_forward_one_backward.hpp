// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Schedules that assign stages to ranks in turn: stage s is on rank s % ranks. After a warm-up of forwards, a rank
/// alternates one forward and one backward. They contain only computations: see `with_messages`.

#include <algorithm>

#include <shardwise/schedule/pipeline_schedule.hpp>

namespace shardwise {

/// All forwards, then all backwards: every rank keeps the activations of all micro-batches (Huang et al., "GPipe",
/// 2019). Throws `std::invalid_argument` if a size is below 1.
constexpr PipelineSchedule gpipe(int ranks, int micro_batches) {
  PipelineSchedule schedule = detail::empty_schedule("gpipe", ranks, 1, micro_batches);
  for (Work work : {Work::forward, Work::backward}) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (int i = 0; i < micro_batches; ++i) detail::at(schedule.actions, rank).push_back({work, rank, i});
    }
  }
  return schedule;
}

namespace detail {

/// How many more warm-up forwards a rank has than the next one, and whether weights have separate backwards.
struct Alternation {
  int forwards_ahead = 1;
  bool weights_later = false;
};

/// A rank's stages are its chunks. Forwards process `ranks` micro-batches in the first chunk, then the same ones in
/// the next, and so on; backwards likewise, from the last chunk to the first. The last rank starts its backwards as
/// soon as the last chunk has its first input; each earlier rank runs `forwards_ahead` more forwards first. With
/// `weights_later`, rank r postpones the backwards of weights by r micro-batches, and fills its idle time at the
/// end with them.
constexpr PipelineSchedule alternating(const char* name, int ranks, int chunks, int micro_batches,
                                       Alternation how) {
  PipelineSchedule schedule = empty_schedule(name, ranks, chunks, micro_batches);
  if (chunks > 1 && micro_batches % ranks != 0) {
    fail({name, ": ", micro_batches,
          " micro-batches; with several stages a rank, expected a multiple of the ", ranks, " ranks"});
  }
  const int total = chunks * micro_batches;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Action>& actions = at(schedule.actions, rank);
    auto add = [&](Work work, int i) {
      const int round = i / (ranks * chunks);
      const int chunk = i / ranks % chunks;
      const int from_the_end = chunks - 1 - chunk;
      actions.push_back(
          {work, (work == Work::forward ? chunk : from_the_end) * ranks + rank, round * ranks + i % ranks});
    };
    const int warm_up = std::min((chunks - 1) * ranks + how.forwards_ahead * (ranks - 1 - rank), total);
    const int waiting = how.weights_later ? std::min(rank, total) : 0;
    for (int i = 0; i < warm_up; ++i) add(Work::forward, i);
    for (int i = 0; i < total; ++i) {
      if (warm_up + i < total) add(Work::forward, warm_up + i);
      add(how.weights_later ? Work::backward_input : Work::backward, i);
      if (how.weights_later && i >= waiting) add(Work::backward_weight, i - waiting);
    }
    for (int i = total - waiting; i < total; ++i) add(Work::backward_weight, i);
  }
  return schedule;
}

}  // namespace detail

/// The same idle time as GPipe, but rank r keeps the activations of only `ranks` - r micro-batches (Narayanan et
/// al., "Memory-Efficient Pipeline-Parallel DNN Training", 2021: PipeDream-flush, which Megatron calls 1F1B).
/// Throws `std::invalid_argument` if a size is below 1.
constexpr PipelineSchedule one_forward_one_backward(int ranks, int micro_batches) {
  return detail::alternating("one_forward_one_backward", ranks, 1, micro_batches, {});
}

/// 1F1B with `chunks` stages per rank: `chunks` times less idle time, `chunks` times as many messages, and somewhat
/// more activations (Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
/// Megatron-LM", 2021). Throws `std::invalid_argument` if a size is below 1, or if there are several chunks and
/// `micro_batches` is not a multiple of `ranks`.
constexpr PipelineSchedule interleaved(int ranks, int chunks, int micro_batches) {
  return detail::alternating("interleaved", ranks, chunks, micro_batches,
                             {.forwards_ahead = chunks > 1 ? 2 : 1});
}

/// 1F1B with backwards in two parts: rank r postpones r of the backwards of weights to its idle time, so every rank
/// keeps the activations of `ranks` micro-batches (Qi et al., "Zero Bubble Pipeline Parallelism", 2023: ZB-H1;
/// DeepSeek's ZB1P). Throws `std::invalid_argument` if a size is below 1.
constexpr PipelineSchedule zb_h1(int ranks, int micro_batches) {
  return detail::alternating("zb_h1", ranks, 1, micro_batches, {.weights_later = true});
}

/// The same with `chunks` stages per rank (PyTorch's ScheduleInterleavedZeroBubble). Throws as `interleaved` does.
constexpr PipelineSchedule interleaved_zb_h1(int ranks, int chunks, int micro_batches) {
  return detail::alternating("interleaved_zb_h1", ranks, chunks, micro_batches, {.weights_later = true});
}

}  // namespace shardwise
