// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `Dropout`: sets a share of the elements to zero and scales the others. The mask is a function of the
/// layer's seed, the step and the element's global index, so it is the same on every mesh.
///
/// ```
/// Dropout<> dropout(0.1, seed);                       // in the layout of x
/// Dropout<SequenceParallel<tp>> dropout(0.1, seed);   // each rank its own tokens
/// y = dropout(x, step);
/// ```

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/module/module.hpp>
#include <shardwise/ops/dropout.hpp>
#include <shardwise/parallel/style_problem.hpp>
#include <shardwise/parallel/styled.hpp>

namespace shardwise {

template <ParallelStyle Style = NoParallel>
class Dropout : public Module<Dropout<Style>> {
 public:
  /// `probability` of an element to be dropped, in [0, 1).
  /// Throws `std::invalid_argument` if it is not. Layers with different seeds have independent masks.
  constexpr Dropout(double probability, std::uint64_t seed)
      : probability_(probability), seed_(derived_seed(seed, "dropout")) {
    if (!(probability >= 0 && probability < 1))
      detail::fail({"Dropout: the probability is ", probability, ", but must be in [0, 1)"});
  }
  template <IllFormed Why = WrittenOtherwise<Hint::pass_a_seed_as_the_next_argument>>
  explicit Dropout(double) = delete;                     // see Why
  Dropout(const auto&, double, std::uint64_t) = delete;  // leave the mesh out: it comes from the input

  /// In training: a new mask each step.
  constexpr auto forward(const Operand auto& x, std::uint64_t step) const {
    return dropout(forward(x), probability_, derived_seed(seed_ ^ step, "step"));
  }
  /// In evaluation: nothing is dropped.
  template <Operand X>
  constexpr auto forward(const X& x) const {
    using T = tensor_of<X>;
    if constexpr (WellFormed<T>) {
      using Problem = detail::style_problem<typename T::MeshOf, ModuleKind::dropout, Style>;
      if constexpr (IllFormed<Problem>)
        return redistribute_to<Problem>(x);
      else
        return detail::redistribute_input<Style, 1>(x);
    } else {
      return x;
    }
  }

  constexpr void visit(auto&&) {}

  template <Operand X, std::same_as<bool> Training,
            IllFormed Why = WrittenOtherwise<Hint::pass_the_step_and_leave_it_out_when_you_evaluate>>
  static detail::abstract_result<Why, X> forward(const X&, Training);  // see Why

 private:
  double probability_;
  std::uint64_t seed_;
};

}  // namespace shardwise
