// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `variance` over one dimension, or over all of them. They must be unsharded, and the result lacks them.
///
/// ```
/// v = variance<0>(x);      // of a population: v[c] = mean over r of (x[r, c] - mean of x[:, c])²
/// v = variance<0>(x, 1);   // of a sample: the divisor is the extent - 1
/// ```

#include <shardwise/ops/reduction.hpp>

namespace shardwise {

template <int Dim>
struct VarianceOp {
  Index correction;

  using Reduction = ReductionOp<detail::NormOf, Dim>;
  static constexpr Saved saved{.inputs = 0b1};

  template <int Rank>
  static constexpr Signature signature() {
    Signature own = Reduction::template signature<Rank>();
    for (int dim = 0; dim < own.operands[0].rank; ++dim) {
      if (own.result.find(own.operands[0][dim]) < 0) own = own.whole(own.operands[0][dim]);
    }
    return own;
  }

  template <int Rank>
  constexpr auto shape(const Shape<Rank>& x) const {
    constexpr Signature own = detail::signature_of<VarianceOp, Rank>;
    const std::span<const Index> shapes[]{{x.data(), Rank}};
    Shape<own.result.rank> y{};
    detail::fit(own, "variance", shapes, y.data());
    Index n = 1;
    for (int i = 0; i < own.uncut.rank; ++i) n *= x[own.operands[0].find(own.uncut[i])];
    if (n <= correction) {
      detail::fail({"variance: of ", n, " elements of ", x, ", with a correction of ", correction,
                    ", which must be less"});
    }
    return y;
  }

  template <class T, int Rank>
  static constexpr Index residual_bytes(const auto& y, const View<const T, Rank>&) {
    return 2 * y.elements() * static_cast<Index>(sizeof(kernel::compute_t<T>));
  }
  static constexpr std::int64_t flops(const auto&, const auto& x) { return 4 * x.elements(); }

  template <class T, int Rank>
  void forward(auto y, void* means, View<const T, Rank> x) const {
    const auto f = Reduction::folded(x);
    kernel::variance(f.outer, f.n, f.inner, divisor(f), x.data, static_cast<kernel::compute_t<T>*>(means),
                     y.data);
  }
  template <class T, int Rank>
  void pull_back(auto dy, auto, const void* means, Input<T, Rank> x) const {
    const auto f = Reduction::folded(x);
    kernel::variance_backward(f.outer, f.n, f.inner, divisor(f), x.data,
                              static_cast<const kernel::compute_t<T>*>(means), dy.data, x.gradient);
  }

 private:
  double divisor(const detail::Folded& f) const { return f.all - static_cast<double>(correction); }
};

/// Σ (x - mean)² / (n - correction), where n is the extent of dimension `Dim`, or without it the number of elements:
/// the variance of a population. `correction` is PyTorch's, whose default is 1. Throws `std::invalid_argument` unless
/// it is less than n.
template <int Dim = detail::all_dimensions, Operand X, WellFormed Result = result_of<VarianceOp<Dim>, X>>
constexpr auto variance(const X& x, Index correction = 0) {
  return apply(VarianceOp<Dim>{correction}, x);
}
template <int Dim = detail::all_dimensions, Operand X, IllFormed Why = result_of<VarianceOp<Dim>, X>>
Why variance(const X&, Index = 0);  // see Why

}  // namespace shardwise
