// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Cross entropy of softmax(logits) against target classes: Σ_r lse[r] - logits[r, target], where lse is the
/// logarithm of the sum of exponentials. The parts also stand alone, for logits of which this process owns
/// the classes [first, first + classes): then row_max is joined by a maximum over the processes, row_sum_exp
/// and target_logits by sums, lse = max + log(sum), and no logits are moved.

#include <cmath>

#include "shardwise/kernel/fold.hpp"
#include "shardwise/kernel/scratch.hpp"
#include "shardwise/kernel/softmax.hpp"

namespace shardwise::kernel {

/// The target of rows that do not count, as in PyTorch.
inline constexpr Index ignore_index_default = -100;

/// out[r] = max_c logits[r, c], -∞ without classes.
template <class T>
void row_max(Index rows, Index classes, const T* logits, compute_t<T>* out) {
  for (Index r = 0; r < rows; ++r) out[r] = max(classes, logits + r * classes);
}

/// out[r] = Σ_c e^(logits[r, c] - maximum[r])
template <class T>
void row_sum_exp(Index rows, Index classes, const T* logits, const compute_t<T>* maximum, compute_t<T>* out) {
  auto* e = scratch<detail::SoftmaxRow, compute_t<T>>(classes);
  for (Index r = 0; r < rows; ++r) {
    out[r] = detail::exp_row(classes, logits + r * classes, detail::finite_maximum(maximum[r]), e);
  }
}

/// out[r] = logits[r, targets[r] - first], 0 if that class is not here.
template <class T, class Id>
void target_logits(Index rows, Index classes, Index first, const T* logits, const Id* targets,
                   compute_t<T>* out) {
  for (Index r = 0; r < rows; ++r) {
    const Index c = static_cast<Index>(targets[r]) - first;
    out[r] = c >= 0 && c < classes ? widen(logits[r * classes + c]) : 0;
  }
}

/// The sum over the rows of -log softmax(logits[r])[targets[r]], where rows whose target is `ignore_index`
/// count 0. logits: [rows, classes]; targets: [rows], each in [0, classes) or ignore_index; lse: [rows], for
/// the backward pass.
template <class T, class Id>
double cross_entropy(Index rows, Index classes, const T* logits, const Id* targets, compute_t<T>* lse,
                     Index ignore_index = ignore_index_default) {
  using C = compute_t<T>;
  C* e = scratch<detail::SoftmaxRow, C>(classes);
  double loss = 0;
  for (Index r = 0; r < rows; ++r, logits += classes) {
    const C maximum = detail::finite_maximum(max(classes, logits));
    lse[r] = maximum + std::log(detail::exp_row(classes, logits, maximum, e));
    const Index target = static_cast<Index>(targets[r]);
    if (target != ignore_index)
      loss += static_cast<double>(lse[r]) - static_cast<double>(widen(logits[target]));
  }
  return loss;
}

/// dlogits[r, c] = (e^(logits[r, c] - lse[r]) - [first + c == targets[r]]) · factor, and 0 in ignored rows.
/// dlogits may be logits.
template <class T, class Id>
void cross_entropy_backward(Index rows, Index classes, const T* logits, const compute_t<T>* lse,
                            const Id* targets, compute_t<T> factor, T* dlogits,
                            Index ignore_index = ignore_index_default, Index first = 0) {
  using C = compute_t<T>;
  for (Index r = 0; r < rows; ++r, logits += classes, dlogits += classes) {
    const Index target = static_cast<Index>(targets[r]);
    if (target == ignore_index) {
      fill(classes, 0, dlogits);
      continue;
    }
    const Index c = target - first;
    const bool here = c >= 0 && c < classes;
    const C logit = here ? widen(logits[c]) : C{0}, total = lse[r];
    map(
        classes, dlogits, [=](C value) { return exp(value - total) * factor; }, logits);
    if (here) dlogits[c] = narrow<T>((exp(logit - total) - 1) * factor);
  }
}

}  // namespace shardwise::kernel
