// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Cross entropy of softmax(logits) and target classes: Σ_r lse[r] - logits[r, target], where lse is the logarithm
/// of the sum of exponentials. This process may own only the classes [first, first + classes) of each row:
///
///     row_terms(rows, classes, first, logits, targets, terms);     // from each process's block
///     … RowTerms<float>::combine over the processes …             // no logits are moved
///     double loss = cross_entropy(rows, terms, targets, expected);
///     cross_entropy_backward(rows, classes, first, logits, terms, targets, expected, factor, dlogits);

#include <numeric>

#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/softmax.hpp>

namespace shardwise::kernel {

/// The distribution expected for a row: 1 - smoothing at its target, plus smoothing / classes at every class
/// (Szegedy et al., "Rethinking the Inception architecture for computer vision", 2016). Each class is multiplied by
/// its weight, and each row counts with the weight of its target; rows whose target is `ignore_index` do not count.
struct TargetDistribution {
  Index classes = 0;  ///< over all processes
  double smoothing = 0;
  Index ignore_index = ignore_index_default;
  const double* weights = nullptr;  ///< for all classes; null: all 1

  /// 0 outside the classes, because targets are read before they are checked.
  double weight(Index c) const {
    if (!weights) return 1;
    return c >= 0 && c < classes ? weights[c] : 0;
  }
  double all_weights() const {
    return weights ? std::accumulate(weights, weights + classes, 0.) : static_cast<double>(classes);
  }
};

/// The total of a row that is not smoothed.
struct NoTotal {};

/// The contribution of a block of a row's classes to the row's cross entropy.
template <class C, bool Smoothed = false>
struct RowTerms {
  static constexpr bool smoothed = Smoothed;
  C maximum;  ///< max logits; -∞ without classes
  C sum;      ///< Σ e^(logits - maximum)
  C target;   ///< the target's logit, or 0 if this block lacks that class
  /// Σ weight · logit, if smoothed.
  [[no_unique_address]] std::conditional_t<Smoothed, C, NoTotal> total{};

  /// Combines two blocks of each row. Symmetric to the last bit, even if the compiler fuses multiplication and
  /// addition: the block with the larger maximum is never multiplied.
  static void combine(Index rows, const RowTerms* terms, RowTerms* results) {
    SHARDWISE_INDEPENDENT
    for (Index r = 0; r < rows; ++r) {
      const C a = terms[r].maximum, b = results[r].maximum;
      const C a_sum = terms[r].sum, b_sum = results[r].sum;
      const bool above = a > b;
      const C high = above ? a : b, low = above ? b : a;
      const C high_sum = above ? a_sum : b_sum, low_sum = above ? b_sum : a_sum;
      results[r].maximum = high;
      results[r].sum = high_sum + low_sum * exp(low - detail::finite_maximum(high));
      results[r].target += terms[r].target;
      if constexpr (Smoothed) results[r].total += terms[r].total;
    }
  }
};

/// `RowTerms` with label smoothing.
template <class C>
using SmoothedRowTerms = RowTerms<C, true>;

namespace detail {

template <class C>
struct MaximumAndSum {
  C maximum, sum;
};

/// The maximum of a row and Σ e^(x - maximum), in one pass over memory: if a chunk (of the size of the first-level
/// cache) has a larger element, the sum so far is scaled down (Milakov and Gimelshein, "Online normalizer
/// calculation for softmax", 2018).
template <class T>
MaximumAndSum<compute_t<T>> maximum_and_sum(Index n, const T* x) {
  using C = compute_t<T>;
  constexpr Index chunk = 512;
  alignas(64) C e[chunk];
  C maximum = -std::numeric_limits<C>::infinity();
  double sum = 0;
  for (Index i = 0; i < n; i += chunk) {
    const Index count = std::min(chunk, n - i);
    prefetch(chunk, x + i + count);
    const C here = max<false>(count, x + i);
    if (here > maximum) {
      sum *= static_cast<double>(exp(maximum - here));
      maximum = here;
    }
    sum += static_cast<double>(exp_row(count, x + i, finite_maximum(maximum), e));
  }
  return {maximum, static_cast<C>(sum)};
}
SHARDWISE_COMPILE_EACH(maximum_and_sum)

/// dx = e^(x - shift) · scale - everywhere, minus `at_target` at class `target` if it is one of the n. dx may be x.
template <class T>
void gradient_row(Index n, const T* x, compute_t<T> shift, compute_t<T> scale, compute_t<T> everywhere,
                  Index target, compute_t<T> at_target, T* dx) {
  using C = compute_t<T>;
  constexpr Index chunk = 256;
  const bool here = target >= 0 && target < n;
  const C logit = here ? widen(x[target]) : C{0};
  for (Index i = 0; i < n; i += chunk) {
    const Index count = std::min(chunk, n - i);
    prefetch(chunk, x + i + count);
    prefetch(chunk, dx + i + count);
    map(
        count, dx + i, [=](C value) { return exp(value - shift) * scale - everywhere; }, x + i);
  }
  if (here) dx[target] = narrow<T>(exp(logit - shift) * scale - (everywhere + at_target));
}
SHARDWISE_COMPILE_EACH(gradient_row)
/// The same, minus `share` · weights[c] for each class c.
template <class T>
void weighted_gradient_row(Index n, const T* x, compute_t<T> shift, compute_t<T> scale, double share,
                           const double* weights, Index target, compute_t<T> at_target, T* dx) {
  using C = compute_t<T>;
  for (Index c = 0; c < n; ++c) {
    const C less = static_cast<C>(share * weights[c]) + (c == target ? at_target : C{0});
    dx[c] = narrow<T>(exp(widen(x[c]) - shift) * scale - less);
  }
}

template <class T>
double weighted_sum(Index n, const T* x, const double* weights) {
  double sum = 0;
  for (Index c = 0; c < n; ++c) sum += weights[c] * static_cast<double>(widen(x[c]));
  return sum;
}

}  // namespace detail

/// terms[r] = the contribution of logits[r, :].
template <class T, class Id, class Terms>
void row_terms(Index rows, Index classes, Index first, const T* logits, const Id* targets, Terms* terms,
               const TargetDistribution& expected = {}) {
  using C = compute_t<T>;
  for (Index r = 0; r < rows; ++r, logits += classes) {
    const auto row = detail::maximum_and_sum(classes, logits);
    const Index target = static_cast<Index>(targets[r]) - first;
    terms[r].maximum = row.maximum;
    terms[r].sum = row.sum;
    terms[r].target = target >= 0 && target < classes ? widen(logits[target]) : C{0};
    if constexpr (Terms::smoothed) {
      terms[r].total =
          static_cast<C>(expected.weights ? detail::weighted_sum(classes, logits, expected.weights + first)
                                          : static_cast<double>(sum(classes, logits)));
    }
  }
}
SHARDWISE_COMPILE(row_terms<float, std::int32_t, RowTerms<float, false>>)
SHARDWISE_COMPILE(row_terms<float, std::int32_t, RowTerms<float, true>>)

/// The sum of the rows' cross entropies, from the terms of all their classes; 0 of a row that is ignored. `losses`, if
/// it is not null, gets that of each row.
template <class Terms, class Id>
double cross_entropy(Index rows, const Terms* terms, const Id* targets, const TargetDistribution& expected,
                     decltype(Terms::sum)* losses = nullptr) {
  const double classes = static_cast<double>(expected.classes),
               share = Terms::smoothed && expected.weights ? expected.all_weights() / classes : 1;
  double sum = 0;
  for (Index r = 0; r < rows; ++r) {
    const auto target = static_cast<Index>(targets[r]);
    double row = 0;
    if (target != expected.ignore_index) {
      // Differences of logits first: they are small where logits are large.
      const double log_sum = std::log(static_cast<double>(terms[r].sum));
      const double maximum = static_cast<double>(terms[r].maximum);
      row = expected.weight(target) * (log_sum + (maximum - static_cast<double>(terms[r].target)));
      if constexpr (Terms::smoothed) {
        const double mean = static_cast<double>(terms[r].total) / classes;
        row = (1 - expected.smoothing) * row +
              expected.smoothing * (share * log_sum + (share * maximum - mean));
      }
    }
    sum += row;
    if (losses) losses[r] = static_cast<decltype(Terms::sum)>(row);
  }
  return sum;
}

/// The gradient of `factor` times that sum: dlogits[r, c] = (softmax[r, c] - the target distribution) · factor, and
/// 0 in ignored rows; an optional list gives an additional factor for each row. dlogits may be logits.
template <class T, class Id, class Terms>
void cross_entropy_backward(Index rows, Index classes, Index first, const T* logits, const Terms* terms,
                            const Id* targets, const TargetDistribution& expected, double factor, T* dlogits,
                            const compute_t<T>* factors = nullptr) {
  using C = compute_t<T>;
  const double share = expected.smoothing / static_cast<double>(expected.classes);
  const double of_all = expected.weights && share > 0 ? share * expected.all_weights() : expected.smoothing;
  for (Index r = 0; r < rows; ++r, logits += classes, dlogits += classes) {
    const Index target = static_cast<Index>(targets[r]);
    if (target == expected.ignore_index) {
      fill(classes, 0, dlogits);
      continue;
    }
    const double here = factors ? factor * static_cast<double>(factors[r]) : factor;
    const double mass = (1 - expected.smoothing) * expected.weight(target);
    // Without weights the expected distribution sums to 1.
    const C scale = static_cast<C>((expected.weights ? here * (mass + of_all) : here) /
                                   static_cast<double>(terms[r].sum));
    const C shift = detail::finite_maximum(terms[r].maximum), at_target = static_cast<C>(here * mass);
    if (expected.weights && share > 0) {
      detail::weighted_gradient_row(classes, logits, shift, scale, here * share, expected.weights + first,
                                    target - first, at_target, dlogits);
    } else {
      detail::gradient_row(classes, logits, shift, scale, static_cast<C>(here * share), target - first,
                           at_target, dlogits);
    }
  }
}

/// The number of rows that count; with weights, the sum of their targets' weights.
template <class Id>
double counted_weight(Index rows, const Id* targets, const TargetDistribution& expected) {
  if (!expected.weights)
    return static_cast<double>(rows - std::count(targets, targets + rows, expected.ignore_index));
  double sum = 0;
  for (Index r = 0; r < rows; ++r) {
    const auto target = static_cast<Index>(targets[r]);
    if (target != expected.ignore_index) sum += expected.weight(target);
  }
  return sum;
}

/// The first row whose target is neither a class nor ignored, or -1.
template <class Id>
Index wrong_target(Index rows, const Id* targets, const TargetDistribution& expected) {
  for (Index r = 0; r < rows; ++r) {
    const Index target = static_cast<Index>(targets[r]);
    if (target != expected.ignore_index && (target < 0 || target >= expected.classes)) return r;
  }
  return -1;
}

}  // namespace shardwise::kernel
