// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `layer_norm`: every row brought to mean 0 and variance 1, then scaled and shifted (Ba, Kiros and Hinton,
/// "Layer normalization", 2016). The last dimension, along which it normalises, is whole on every rank; where
/// another one is sharded (sequence parallelism), gamma and beta are `Reduced` and their gradients pending.

#include <shardwise/kernel/normalise.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

struct LayerNormOp {
  double eps;

  static constexpr const char* name = "layer_norm";
  static constexpr Signature signature = Signature::of("...c, c, c -> ...c").whole('c');
  static constexpr Saved saved{.inputs = 0b011};
  static constexpr int flops_each = 7;  // sum, centre, sum of squares (2), normalise, scale, shift
  static constexpr int gradient_flops_each = 14;

  constexpr void check() const {
    if (!(eps >= 0)) detail::fail({"layer_norm: epsilon is ", eps, ", which must be 0 or more"});
  }

  /// The mean, what it lacks by rounding, and 1/√(variance + eps) of each row.
  template <class T, int Rank>
  static constexpr Index residual_bytes(const auto&, const View<const T, Rank>& x, const auto&, const auto&) {
    return x.rows() * 3 * static_cast<Index>(sizeof(kernel::compute_t<T>));
  }

  template <class T, int Rank>
  void forward(View<T, Rank> y, void* residual, View<const T, Rank> x, View<const T, 1> gamma,
               View<const T, 1> beta) const {
    using C = kernel::compute_t<T>;
    kernel::layer_norm(x.rows(), x.columns(), x.data, gamma.data, beta.data, static_cast<C>(eps), y.data,
                       static_cast<C*>(residual));
  }

  template <class T, int Rank>
  static void pull_back(View<const T, Rank> dy, View<const T, Rank>, const void* residual, Input<T, Rank> x,
                        Input<T, 1> gamma, Input<T, 1> beta) {
    kernel::layer_norm_backward(x.rows(), x.columns(), x.data, gamma.data,
                                static_cast<const kernel::compute_t<T>*>(residual), dy.data, x.gradient,
                                gamma.gradient, beta.gradient);
  }
};

/// x: [r…, c], gamma and beta: [c]; the result is [r…, c].
template <Operand X, Operand Gamma, Operand Beta, WellFormed Result = result_of<LayerNormOp, X, Gamma, Beta>>
constexpr auto layer_norm(const X& x, const Gamma& gamma, const Beta& beta, double eps = 1e-5) {
  return apply(LayerNormOp{eps}, x, gamma, beta);
}
template <class X, class Gamma, class Beta, IllFormed Why = result_of<LayerNormOp, X, Gamma, Beta>>
Why layer_norm(const X&, const Gamma&, const Beta&, double = 1e-5);  // see Why

}  // namespace shardwise
