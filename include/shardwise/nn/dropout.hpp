// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `Dropout`: sets a share of the elements to zero and scales the others. The mask is a function of the
/// layer's seed, the step and the element's global index, so it is the same on every mesh.
///
/// ```
/// Dropout<> dropout(0.1, seed);                       // in whatever layout x has
/// Dropout<SequenceParallel<tp>> dropout(0.1, seed);   // each rank its own tokens
/// y = dropout(x, step);
/// ```

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/module/module.hpp>
#include <shardwise/ops/dropout.hpp>
#include <shardwise/parallel/styled.hpp>

namespace shardwise {

template <ParallelStyle Style = NoParallel>
class Dropout {
 public:
  template <class X>
  using Problem = detail::style_problem<typename X::MeshOf, ModuleKind::dropout, Style>;
  template <class X>
  using TakenIn = std::conditional_t<WellFormed<Problem<X>>, detail::taken_in<Style, X, 0>, Problem<X>>;
  template <class X>
  using Dropped = result_of<DropoutOp, X>;
  /// What a call with an `X` in training gives, or the `LayoutError` that says why none.
  template <class X>
  using ResultOf = detail::through<X, TakenIn, Dropped>;
  /// The same in evaluation.
  template <class X>
  using Passed = detail::through<X, TakenIn>;

  /// `probability` of an element to be dropped, in [0, 1).
  /// Throws `std::invalid_argument` if it is not. Layers with different seeds have independent masks.
  constexpr Dropout(double probability, std::uint64_t seed)
      : probability_(probability), seed_(derived_seed(seed, "dropout")) {
    if (!(probability >= 0 && probability < 1)) {
      throw std::invalid_argument("Dropout: the probability is " + std::to_string(probability) +
                                  ", but must be in [0, 1)");
    }
  }

  /// In training: a new mask each step.
  template <Operand X, class Result = ResultOf<X>>
  constexpr auto operator()(const X& x, std::uint64_t step) const {
    return dropout(redistribute_to<TakenIn<tensor_of<X>>>(x), probability_,
                   derived_seed(seed_ ^ step, "step"));
  }
  template <Operand X, IllFormed Why = ResultOf<X>>
  Why operator()(const X&, std::uint64_t) const;  // see Why
  /// In evaluation: nothing is dropped.
  template <Operand X, class Result = Passed<X>>
  constexpr auto operator()(const X& x) const {
    return redistribute_to<Result>(x);
  }
  template <Operand X, IllFormed Why = Passed<X>>
  Why operator()(const X&) const;  // see Why

  constexpr void visit(auto&&) {}

 private:
  double probability_;
  std::uint64_t seed_;
};

}  // namespace shardwise
