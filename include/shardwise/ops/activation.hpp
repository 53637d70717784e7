// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Elementwise functions of one tensor: the activations `relu`, `sigmoid`, `tanh`, `gelu` (exact), `gelu_tanh` (its
/// tanh approximation), `silu` and `softplus`; and `exp`, `log`, `sqrt`, `abs`, `reciprocal` and `pow`. Any placement
/// but `Partial`: f(a + b) is not f(a) + f(b).

#include <shardwise/kernel/activations.hpp>
#include <shardwise/kernel/arithmetic.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

/// `F`: one of the formulas of kernel/activations.hpp.
template <class F>
struct ActivationOp {
  static constexpr const char* name = "activation";
  static constexpr Signature signature = Signature::of("... -> ...");
  static constexpr Saved saved{.inputs = F::saves_output ? 0u : 1u, .output = F::saves_output};

  static void forward(auto y, void*, auto x) { kernel::activate<F>(y.elements(), x.data, y.data); }
  template <class T, int Rank>
  static void pull_back(View<const T, Rank> dy, View<const T, Rank> y, const void*, Input<T, Rank> x) {
    kernel::activate_backward<F>(dy.elements(), F::saves_output ? y.data : x.data, dy.data, x.gradient);
  }
};

struct PowOp {
  double exponent;

  static constexpr Signature signature = Signature::of("... -> ...");
  static constexpr Saved saved{.inputs = 0b1};

  template <class T, int Rank>
  void forward(View<T, Rank> y, void*, View<const T, Rank> x) const {
    const auto p = static_cast<kernel::compute_t<T>>(exponent);
    kernel::map(
        y.elements(), y.data, [p](auto value) { return kernel::raise(value, p); }, x.data);
  }
  template <class T, int Rank>
  void pull_back(View<const T, Rank> dy, View<const T, Rank>, const void*, Input<T, Rank> x) const {
    if (exponent == 0) return kernel::fill(dy.elements(), 0, x.gradient);  // also where x is 0
    const auto p = static_cast<kernel::compute_t<T>>(exponent);
    kernel::map(
        dy.elements(), x.gradient, [p](auto value, auto d) { return d * p * kernel::raise(value, p - 1); },
        x.data, dy.data);
  }
};

/// max(x, 0). This and the functions below are for floating-point elements, in any layout but a pending one. The result
/// has the same layout.
SHARDWISE_FUNCTION(relu, ActivationOp<kernel::Relu>);

/// The logistic function 1 / (1 + e^-x).
SHARDWISE_FUNCTION(sigmoid, ActivationOp<kernel::Sigmoid>);

SHARDWISE_FUNCTION(tanh, ActivationOp<kernel::Tanh>);

/// x Φ(x), with the normal distribution function itself.
SHARDWISE_FUNCTION(gelu, ActivationOp<kernel::Gelu>);

/// The tanh approximation of gelu (Hendrycks and Gimpel, 2016).
SHARDWISE_FUNCTION(gelu_tanh, ActivationOp<kernel::GeluTanh>);

/// x times the logistic function of x.
SHARDWISE_FUNCTION(silu, ActivationOp<kernel::Silu>);

/// ln(1 + e^x), a smooth form of relu.
SHARDWISE_FUNCTION(softplus, ActivationOp<kernel::Softplus>);

SHARDWISE_FUNCTION(exp, ActivationOp<kernel::Exp>);

/// The natural logarithm: -∞ at 0, NaN below. Its gradient at 0 is infinite.
SHARDWISE_FUNCTION(log, ActivationOp<kernel::Log>);

/// √x: NaN below 0. Its gradient at 0 is infinite.
SHARDWISE_FUNCTION(sqrt, ActivationOp<kernel::Sqrt>);

/// |x|. Its gradient at 0 is 0.
SHARDWISE_FUNCTION(abs, ActivationOp<kernel::Abs>);

/// 1 / x
SHARDWISE_FUNCTION(reciprocal, ActivationOp<kernel::Reciprocal>);

/// x to the power `exponent`, as std::pow: NaN for x < 0 unless `exponent` is an integer.
template <Operand X, class Result = result_of<PowOp, X>>
constexpr auto pow(const X& x, double exponent) {
  return apply(PowOp{exponent}, x);
}
template <Operand X, IllFormed Why = result_of<PowOp, X>>
Why pow(const X&, double);  // see Why
template <class X, Operand Y>
WrittenOtherwise<Hint::use_exp_of_the_exponent_times_log> pow(const X&, const Y&);

SHARDWISE_COMPILE_OPERATION(ActivationOp<kernel::Relu>, 2, 2)
SHARDWISE_COMPILE_OPERATION(ActivationOp<kernel::Gelu>, 2, 2)
SHARDWISE_COMPILE_OPERATION(ActivationOp<kernel::Gelu>, 3, 3)
SHARDWISE_COMPILE_OPERATION(ActivationOp<kernel::Silu>, 3, 3)

}  // namespace shardwise
