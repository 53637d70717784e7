// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `rms_norm`: every row divided by its root mean square, then scaled (Zhang and Sennrich, "Root mean square
/// layer normalization", 2019). The last dimension, along which it normalises, is whole on every rank; where
/// another one is sharded (sequence parallelism), the weight is `Reduced` and its gradient pending.
///
/// ```
/// y = rms_norm(x, weight, 1e-5);   // y[r…, c] = x[r…, c] / √(mean_c x[r…, c]² + eps) · weight[c]
/// ```

#include <shardwise/kernel/normalise.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

struct RmsNormOp {
  double eps;
  double offset = 0;

  static constexpr const char* name = "rms_norm";
  static constexpr Signature signature = Signature::of("...c, c -> ...c").whole('c');
  static constexpr Saved saved{.inputs = 0b11};
  static constexpr bool recomputed = true;
  static constexpr int flops_each = 4;  // sum of squares (2), normalise, scale
  static constexpr int gradient_flops_each = 9;

  constexpr void check() const {
    if (!(eps >= 0)) detail::fail({"rms_norm: epsilon is ", eps, ", which must be 0 or more"});
  }

  /// The 1/√(mean(x²) + eps) of each row.
  template <class T, int Rank>
  static constexpr Index residual_bytes(const auto&, const View<const T, Rank>& x, const auto&) {
    return x.rows() * static_cast<Index>(sizeof(kernel::compute_t<T>));
  }

  template <class T, int Rank>
  void forward(View<T, Rank> y, void* residual, View<const T, Rank> x, View<const T, 1> weight) const {
    kernel::rms_norm(x.rows(), x.columns(), x.data, weight.data, eps, offset, y.data,
                     static_cast<kernel::compute_t<T>*>(residual));
  }

  template <class T, int Rank>
  void pull_back(View<const T, Rank> dy, View<const T, Rank>, const void* residual, Input<T, Rank> x,
                 Input<T, 1> weight) const {
    kernel::rms_norm_backward(x.rows(), x.columns(), x.data, weight.data, offset,
                              static_cast<const kernel::compute_t<T>*>(residual), dy.data, x.gradient,
                              weight.gradient);
  }
};

/// x: [r…, c], weight: [c]; the result is [r…, c]. `offset` is added to the weight: 1 in Gemma. Throws
/// `std::invalid_argument` if c differs.
template <Operand X, Operand Weight, WellFormed Result = result_of<RmsNormOp, X, Weight>>
constexpr auto rms_norm(const X& x, const Weight& weight, double eps = 1e-5, double offset = 0) {
  return apply(RmsNormOp{eps, offset}, x, weight);
}
template <class X, class Weight, IllFormed Why = result_of<RmsNormOp, X, Weight>>
Why rms_norm(const X&, const Weight&, double = 1e-5, double = 0);  // see Why

}  // namespace shardwise
