// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What the ranks of a ring have to do: every position is one rank's, and causal attention is the same work for all.

#include <shardwise/nn/ring_attention.hpp>

namespace sw = shardwise;
using sw::Index;
using sw::Range;
using sw::detail::RingSteps;

constexpr RingSteps ring(int ranks, int rank, Index length, const sw::AttentionOptions& options = {}) {
  constexpr sw::Layout lies = sw::layout_of<sw::Shard<1>>;
  return {{ranks}, {rank}, 0, length, lies, length, lies, options};
}
constexpr Index work(int ranks, int rank, Index length, const sw::AttentionOptions& options = {}) {
  const RingSteps steps = ring(ranks, rank, length, options);
  Index pairs = 0;
  for (int step = 0; step < ranks; ++step) pairs += steps.pairs(rank, steps.block(step));
  return pairs;
}
struct Work {
  Index least, most, sum;
};
constexpr Work work_of_all(int ranks, Index length, const sw::AttentionOptions& options = {}) {
  Work all{work(ranks, 0, length, options), 0, 0};
  for (int rank = 0; rank < ranks; ++rank) {
    const Index own = work(ranks, rank, length, options);
    all = {std::min(all.least, own), std::max(all.most, own), all.sum + own};
  }
  return all;
}

/// Of the lengths that 2n divides, the same for all, at every step.
constexpr bool the_same(int ranks, Index length) {
  for (int step = 0; step < ranks; ++step) {
    for (int rank = 1; rank < ranks; ++rank) {
      const RingSteps steps = ring(ranks, rank, length), first = ring(ranks, 0, length);
      if (steps.pairs(rank, steps.block(step)) != first.pairs(0, first.block(step))) return false;
    }
  }
  const Work all = work_of_all(ranks, length);
  return all.least == all.most && all.sum == length * (length + 1) / 2;
}
static_assert(the_same(1, 16) && the_same(2, 16) && the_same(2, 4) && the_same(3, 12) && the_same(4, 64));
static_assert(the_same(5, 40) && the_same(6, 12) && the_same(7, 14 * 9) && the_same(8, 2048));

/// Of others, within a percent of the mean where blocks are long; and nothing is left out, or done twice.
constexpr bool within_a_percent(int ranks, Index length) {
  const Work all = work_of_all(ranks, length);
  return all.most * ranks * 100 <= all.sum * 101 && all.least * ranks * 100 >= all.sum * 99;
}
static_assert(within_a_percent(2, 2999) && within_a_percent(3, 2999) && within_a_percent(4, 2999));
static_assert(within_a_percent(5, 2999) && within_a_percent(6, 2999));
static_assert(within_a_percent(7, 2999) && within_a_percent(8, 2999));
static_assert(!within_a_percent(4, 3));

constexpr bool each_position_once(int ranks, Index length, const sw::AttentionOptions& options = {}) {
  const RingSteps steps = ring(ranks, 0, length, options);
  for (Index position = 0; position < length; ++position) {
    int owners = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      for (const Range& own : steps.queries_of(rank)) {
        owners += own.begin <= position && position < own.end() ? 1 : 0;
      }
    }
    if (owners != 1) return false;
  }
  return work_of_all(ranks, length).sum == length * (length + 1) / 2;
}
constexpr bool each_position_once() {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (const Index length : {1, 2, 3, 7, 13, 16, 29}) {
      if (!each_position_once(ranks, length) || !each_position_once(ranks, length, {.window = 3}))
        return false;
    }
  }
  return true;
}
static_assert(each_position_once());

/// With any window, the busiest rank has no more to do than where ranks compute for their own blocks, and less, where the
/// window is more than half; nor more than 4/3 of the mean.
constexpr bool no_worse_than_in_order(int ranks, Index length) {
  for (Index window = 1; window <= length + 1; ++window) {
    Index most = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const Range own = sw::balanced_block(length, ranks, rank);
      most = std::max(most, sw::kernel::visible_pairs(own.size, length, own.begin, true, window));
    }
    const Work here = work_of_all(ranks, length, {.window = window});
    if (here.most > most || (2 * window > length && here.most == most)) return false;
    if (3 * ranks * here.most > 4 * here.sum) return false;
  }
  return true;
}
static_assert(no_worse_than_in_order(2, 24) && no_worse_than_in_order(3, 24) &&
              no_worse_than_in_order(4, 24));
static_assert(no_worse_than_in_order(8, 32));

/// What sees all keys is the same work in the order of positions.
static_assert(!ring(4, 1, 16, {.causal = false}).swaps(1) && !ring(4, 1, 16, {.window = 8}).swaps(1));
static_assert(ring(4, 1, 16, {.window = 9}).swaps(1) && ring(4, 1, 16).swaps(1));
static_assert(!ring(3, 1, 16).swaps(1), "the rank in the middle is its own mirror");
