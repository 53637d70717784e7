// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `cross_entropy`: the mean over all rows of -log softmax(logits)[target]. Classes are whole on every rank.
/// Sharded rows give a pending sum: each rank's rows divided by the number of rows in the whole tensor, so
/// that an all-reduce of the scalar makes the mean.

#include <shardwise/kernel/cross_entropy.hpp>
#include <shardwise/kernel/embedding.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>
#include <shardwise/ops/position.hpp>
#include <shardwise/tensor/factories.hpp>

namespace shardwise {

struct CrossEntropyOp {
  static constexpr Saved saved{.inputs = 0b11};

  template <int RankLogits, int RankTargets>
  static constexpr Signature signature() {
    if (RankLogits < 1 || RankTargets != RankLogits - 1) return {};
    Indices rows = Indices::range('A', RankTargets);
    return Signature::of(rows.then('c'), rows, "").whole('c').without_gradient(1);
  }

  template <int Rank, int RankTargets>
  static constexpr Shape<0> shape(const Shape<Rank>& logits, const Shape<RankTargets>& targets) {
    for (int i = 0; i < RankTargets; ++i) {
      if (logits[i] != targets[i]) {
        throw std::invalid_argument("cross_entropy: logits " + detail::to_string(logits) + " and targets " +
                                    detail::to_string(targets) + " differ in dimension " + std::to_string(i));
      }
    }
    return {};
  }

  template <class Y, class Logits, class Targets>
  static constexpr std::int64_t flops(const Y&, const Logits& logits, const Targets&) {
    return 4 * logits.elements();
  }
  template <class Y, class Logits, class Targets>
  static constexpr std::int64_t gradient_flops(int, const Y&, const Logits& logits, const Targets&) {
    return 3 * logits.elements();
  }

  /// The logarithm of the sum of exponentials of each row.
  template <class Y, class T, int Rank, class Targets>
  static constexpr Index residual_bytes(const Y&, const View<const T, Rank>& logits, const Targets&) {
    return logits.rows() * static_cast<Index>(sizeof(kernel::compute_t<T>));
  }

  template <class T, class Id, int Rank>
  static void forward(View<T, 0> y, void* residual, View<const T, Rank> logits,
                      View<const Id, Rank - 1> targets) {
    using C = kernel::compute_t<T>;
    const Index rows = logits.rows(), classes = logits.columns();
    const Index wrong = kernel::check_ids(rows, targets.data, classes);
    if (wrong >= 0) {
      throw std::out_of_range("cross_entropy: target " + std::to_string(targets.data[wrong]) + " at " +
                              detail::position(targets, wrong) + " is none of the " +
                              std::to_string(classes) + " classes");
    }
    const double sum =
        kernel::cross_entropy(rows, classes, logits.data, targets.data, static_cast<C*>(residual));
    *y.data = kernel::narrow<T>(static_cast<C>(sum / all_rows(logits)));
  }

  template <class T, class Id, int Rank>
  static void pull_back(View<const T, 0> dy, View<const T, 0>, const void* residual, Input<T, Rank> logits,
                        Input<Id, Rank - 1> targets) {
    using C = kernel::compute_t<T>;
    const double factor = static_cast<double>(kernel::widen(*dy.data)) / all_rows(logits);
    kernel::cross_entropy_backward(logits.rows(), logits.columns(), logits.data,
                                   static_cast<const C*>(residual), targets.data, static_cast<C>(factor),
                                   logits.gradient);
  }

 private:
  template <class X>
  static double all_rows(const X& logits) {
    double rows = 1;
    for (int dim = 0; dim + 1 < logits.shape.size(); ++dim) {
      rows *= static_cast<double>(logits.shape[dim]);
    }
    return rows;
  }
};

/// logits: [r…, classes], targets: integers, [r…]; the result is a scalar. Throws `std::out_of_range`, on the
/// rank that holds it, for a target outside [0, classes).
template <Operand Logits, Operand Targets, class Result = result_of<CrossEntropyOp, Logits, Targets>>
constexpr auto cross_entropy(const Logits& logits, const Targets& targets) {
  return apply(CrossEntropyOp{}, logits, targets);
}
template <Operand Logits, Operand Targets, IllFormed Why = result_of<CrossEntropyOp, Logits, Targets>>
Why cross_entropy(const Logits&, const Targets&);  // see Why

}  // namespace shardwise
