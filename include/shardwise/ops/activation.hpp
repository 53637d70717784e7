// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Elementwise activations: `relu`, `tanh`, `gelu` (exact), `gelu_tanh` (its tanh approximation), `silu`. Any
/// placement but `Partial`: f(a + b) is not f(a) + f(b).

#include <shardwise/kernel/activations.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

/// `F`: one of the formulas of kernel/activations.hpp.
template <class F>
struct ActivationOp {
  static constexpr Saved saved{.inputs = F::saves_output ? 0u : 1u, .output = F::saves_output};

  template <int... Ranks>
  static constexpr Signature signature() {
    return Signature::elementwise<Ranks...>();
  }
  template <int Rank>
  static constexpr auto shape(const Shape<Rank>& x) {
    return x;
  }
  template <class T, int Rank>
  static void forward(View<T, Rank> y, void*, View<const T, Rank> x) {
    kernel::activate<F>(y.elements(), x.data, y.data);
  }
  template <class T, int Rank>
  static void pull_back(View<const T, Rank> dy, View<const T, Rank> y, const void*, Input<T, Rank> x) {
    kernel::activate_backward<F>(dy.elements(), F::saves_output ? y.data : x.data, dy.data, x.gradient);
  }
};

using ReluOp = ActivationOp<kernel::Relu>;
using TanhOp = ActivationOp<kernel::Tanh>;
using GeluOp = ActivationOp<kernel::Gelu>;
using GeluTanhOp = ActivationOp<kernel::GeluTanh>;
using SiluOp = ActivationOp<kernel::Silu>;

/// max(x, 0). This and the functions below are for floating-point elements, in any layout but a pending one, which the result has too.
template <Operand X, class Result = result_of<ReluOp, X>>
constexpr auto relu(const X& x) {
  return apply(ReluOp{}, x);
}
template <Operand X, IllFormed Why = result_of<ReluOp, X>>
Why relu(const X&);  // see Why

template <Operand X, class Result = result_of<TanhOp, X>>
constexpr auto tanh(const X& x) {
  return apply(TanhOp{}, x);
}
template <Operand X, IllFormed Why = result_of<TanhOp, X>>
Why tanh(const X&);  // see Why

/// x Φ(x), with the normal distribution function itself.
template <Operand X, class Result = result_of<GeluOp, X>>
constexpr auto gelu(const X& x) {
  return apply(GeluOp{}, x);
}
template <Operand X, IllFormed Why = result_of<GeluOp, X>>
Why gelu(const X&);  // see Why

/// The tanh approximation of gelu (Hendrycks and Gimpel, 2016).
template <Operand X, class Result = result_of<GeluTanhOp, X>>
constexpr auto gelu_tanh(const X& x) {
  return apply(GeluTanhOp{}, x);
}
template <Operand X, IllFormed Why = result_of<GeluTanhOp, X>>
Why gelu_tanh(const X&);  // see Why

/// x times the logistic function of x.
template <Operand X, class Result = result_of<SiluOp, X>>
constexpr auto silu(const X& x) {
  return apply(SiluOp{}, x);
}
template <Operand X, IllFormed Why = result_of<SiluOp, X>>
Why silu(const X&);  // see Why

}  // namespace shardwise
