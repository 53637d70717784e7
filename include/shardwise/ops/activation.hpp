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
struct Activation {
  static constexpr Saved saved{.inputs = F::saves_output ? 0u : 1u, .output = F::saves_output};

  template <int Rank>
  static constexpr Signature signature() {
    return Signature::of(Indices::range('a', Rank), Indices::range('a', Rank));
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

using Relu = Activation<kernel::Relu>;
using Tanh = Activation<kernel::Tanh>;
using Gelu = Activation<kernel::Gelu>;
using GeluTanh = Activation<kernel::GeluTanh>;
using Silu = Activation<kernel::Silu>;

template <Operand X, class Result = result_of<Relu, X>>
constexpr auto relu(const X& x) {
  return apply(Relu{}, x);
}
template <Operand X, IllFormed Why = result_of<Relu, X>>
Why relu(const X&);  // see Why

template <Operand X, class Result = result_of<Tanh, X>>
constexpr auto tanh(const X& x) {
  return apply(Tanh{}, x);
}
template <Operand X, IllFormed Why = result_of<Tanh, X>>
Why tanh(const X&);  // see Why

/// x Φ(x), with the normal distribution function itself.
template <Operand X, class Result = result_of<Gelu, X>>
constexpr auto gelu(const X& x) {
  return apply(Gelu{}, x);
}
template <Operand X, IllFormed Why = result_of<Gelu, X>>
Why gelu(const X&);  // see Why

/// The tanh approximation of gelu (Hendrycks and Gimpel, 2016).
template <Operand X, class Result = result_of<GeluTanh, X>>
constexpr auto gelu_tanh(const X& x) {
  return apply(GeluTanh{}, x);
}
template <Operand X, IllFormed Why = result_of<GeluTanh, X>>
Why gelu_tanh(const X&);  // see Why

/// x times the logistic function of x.
template <Operand X, class Result = result_of<Silu, X>>
constexpr auto silu(const X& x) {
  return apply(Silu{}, x);
}
template <Operand X, IllFormed Why = result_of<Silu, X>>
Why silu(const X&);  // see Why

}  // namespace shardwise
