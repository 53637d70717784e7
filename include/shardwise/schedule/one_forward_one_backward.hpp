// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Schedules whose stages are dealt out to the ranks in turn: stage s is on rank s % ranks. After a warm-up of forwards, a
/// rank takes one forward and one backward in turn. All are of computations alone: see `with_messages`.

#include <algorithm>

#include <shardwise/schedule/pipeline_schedule.hpp>

namespace shardwise {

/// All forwards, then all backwards: every rank keeps the activations of all micro-batches (Huang et al., "GPipe", 2019).
/// Throws `std::invalid_argument` if a size is below 1.
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

/// How many more forwards a rank begins with than the next one, and whether weights have backwards of their own.
struct Alternation {
  int forwards_ahead = 1;
  bool weights_later = false;
};

/// A rank's stages are its chunks. Forwards run through `ranks` micro-batches of the first chunk, then the same ones of the
/// next, and so on; backwards likewise, from the last chunk to the first. The last rank starts its backwards as soon as the last
/// chunk has its first input, and a rank before it `forwards_ahead` forwards later than the next. With `weights_later`, rank r
/// keeps r micro-batches whose weights' backward is still to come, with which it fills the end.
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

/// The same idle time as GPipe, but rank r keeps the activations of `ranks` - r micro-batches only (Narayanan et al.,
/// "Memory-Efficient Pipeline-Parallel DNN Training", 2021: PipeDream-flush, which Megatron calls 1F1B).
/// Throws `std::invalid_argument` if a size is below 1.
constexpr PipelineSchedule one_forward_one_backward(int ranks, int micro_batches) {
  return detail::alternating("one_forward_one_backward", ranks, 1, micro_batches, {});
}

/// 1F1B with `chunks` stages a rank: the idle time is `chunks` times shorter, for as many times the messages, and some more
/// activations (Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", 2021).
/// Throws `std::invalid_argument` if a size is below 1, or if there are several chunks and `micro_batches` is not a multiple
/// of `ranks`.
constexpr PipelineSchedule interleaved(int ranks, int chunks, int micro_batches) {
  return detail::alternating("interleaved", ranks, chunks, micro_batches,
                             {.forwards_ahead = chunks > 1 ? 2 : 1});
}

/// 1F1B with backwards in two parts: rank r does r of the backwards of weights later, where it would be idle, and so every
/// rank keeps the activations of `ranks` micro-batches (Qi et al., "Zero Bubble Pipeline Parallelism", 2023: ZB-H1; DeepSeek's
/// ZB1P). Throws `std::invalid_argument` if a size is below 1.
constexpr PipelineSchedule zb_h1(int ranks, int micro_batches) {
  return detail::alternating("zb_h1", ranks, 1, micro_batches, {.weights_later = true});
}

/// The same with `chunks` stages a rank (PyTorch's ScheduleInterleavedZeroBubble). Throws as `interleaved` does.
constexpr PipelineSchedule interleaved_zb_h1(int ranks, int chunks, int micro_batches) {
  return detail::alternating("interleaved_zb_h1", ranks, chunks, micro_batches, {.weights_later = true});
}

}  // namespace shardwise
