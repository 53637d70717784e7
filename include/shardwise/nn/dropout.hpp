// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `Dropout`: sets a share of the elements to zero and scales the others. The mask is a function of the
/// layer's seed, the step and the element's global index, so it is the same on every mesh.

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/nn/module.hpp>
#include <shardwise/ops/dropout.hpp>

namespace shardwise {

class Dropout {
 public:
  /// `probability` of an element to be dropped, in [0, 1).
  constexpr Dropout(double probability, std::uint64_t seed) : probability_(probability), seed_(seed) {}

  /// In training: a new mask each step.
  template <Operand X, class Result = result_of<DropoutOp, X>>
  constexpr auto operator()(const X& x, std::uint64_t step) const {
    return dropout(x, probability_, derived_seed(seed_ + step, "dropout"));
  }
  template <Operand X, IllFormed Why = result_of<DropoutOp, X>>
  Why operator()(const X&, std::uint64_t) const;  // see Why
  /// In evaluation: nothing.
  template <Operand X>
  constexpr const X& operator()(const X& x) const {
    return x;
  }

  constexpr void visit(auto&&) {}

 private:
  double probability_;
  std::uint64_t seed_;
};

}  // namespace shardwise
