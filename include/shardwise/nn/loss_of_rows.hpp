// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The message that ranks exchange about a loss: its sum and the weight of its rows, or the first invalid target, so
/// that all of them throw the same error.

#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/cross_entropy.hpp>
#include <shardwise/tensor/parts.hpp>

namespace shardwise::detail {

/// The loss of some rows.
struct LossOfRows {
  double sum = 0;
  /// How many count, or the sum of their weights. Negative if a target is wrong: then -1 - counted is the position of
  /// the first such target, and the bits of `sum` are its value. So all ranks throw the same.
  double counted = 0;

  static constexpr LossOfRows wrong_target(std::int64_t target, Index position) {
    return {std::bit_cast<double>(target), -1 - static_cast<double>(position)};
  }
  static void combine(Index count, const LossOfRows* terms, LossOfRows* results) {
    for (Index i = 0; i < count; ++i) {
      const LossOfRows &a = terms[i], &b = results[i];
      if (a.counted >= 0 && b.counted >= 0) {
        results[i] = {a.sum + b.sum, a.counted + b.counted};
      } else if (b.counted >= 0 || (a.counted < 0 && a.counted > b.counted)) {  // the larger is the earlier
        results[i] = a;
      }
    }
  }
};

/// The weight of this rank's rows; `sum` stays 0.
template <class Id, int Rank>
LossOfRows counted_of_rows(const View<const Id, Rank>& targets, const kernel::TargetDistribution& expected) {
  const Index rows = targets.elements();
  const Index wrong = kernel::wrong_target(rows, targets.data, expected);
  if (wrong >= 0) {
    Index position = 0;
    for_each_run(targets, [&](Index local, Index global, Index count) {
      if (wrong >= local && wrong < local + count) position = global + (wrong - local);
    });
    return LossOfRows::wrong_target(std::int64_t{targets.data[wrong]}, position);
  }
  return {0, kernel::counted_weight(rows, targets.data, expected)};
}
/// The same with their loss, from the terms of all their classes. `losses`, if it is not null, gets that of each row.
template <class Terms, class Id, int Rank>
LossOfRows loss_of_rows(const View<const Id, Rank>& targets, const Terms* terms,
                        const kernel::TargetDistribution& expected, decltype(Terms::sum)* losses) {
  LossOfRows loss = counted_of_rows(targets, expected);
  if (loss.counted >= 0)
    loss.sum = kernel::cross_entropy(targets.elements(), terms, targets.data, expected, losses);
  return loss;
}
SHARDWISE_COMPILE(loss_of_rows<kernel::RowTerms<float, false>, std::int32_t, 2>)
SHARDWISE_COMPILE(loss_of_rows<kernel::RowTerms<float, true>, std::int32_t, 2>)
SHARDWISE_COMPILE(combine_terms<kernel::RowTerms<float, false>>)
SHARDWISE_COMPILE(combine_terms<kernel::RowTerms<float, true>>)
SHARDWISE_COMPILE(words_of<kernel::RowTerms<float, false>>)
SHARDWISE_COMPILE(words_of<kernel::RowTerms<float, true>>)
SHARDWISE_COMPILE(words_of<LossOfRows>)

/// Throws if the loss is a wrong target. `rows`: the extents of the targets.
inline void check_targets(const LossOfRows& loss, std::span<const Index> rows, Index classes) {
  if (loss.counted >= 0) return;
  const auto at = static_cast<Index>(-1 - loss.counted);
  fail<std::out_of_range>({"CrossEntropyLoss: target ", std::bit_cast<std::int64_t>(loss.sum), " at ",
                           position(rows, at), " is not one of the ", classes, " classes"});
}

}  // namespace shardwise::detail
