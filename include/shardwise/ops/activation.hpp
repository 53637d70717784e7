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
  static constexpr Signature signature = Signature::of("... -> ...");
  static constexpr Saved saved{.inputs = F::saves_output ? 0u : 1u, .output = F::saves_output};

  static void forward(auto y, void*, auto x) { kernel::activate<F>(y.elements(), x.data, y.data); }
  static void pull_back(auto dy, auto y, const void*, auto x) {
    kernel::activate_backward<F>(dy.elements(), F::saves_output ? y.data : x.data, dy.data, x.gradient);
  }
};

using ReluOp = ActivationOp<kernel::Relu>;
using TanhOp = ActivationOp<kernel::Tanh>;
using GeluOp = ActivationOp<kernel::Gelu>;
using GeluTanhOp = ActivationOp<kernel::GeluTanh>;
using SiluOp = ActivationOp<kernel::Silu>;

// NOLINTBEGIN(bugprone-macro-parentheses): a type
#define SHARDWISE_ACTIVATION(name, Op)                   \
  template <Operand X, class Result = result_of<Op, X>>  \
  constexpr auto name(const X& x) {                      \
    return apply(Op{}, x);                               \
  }                                                      \
  template <Operand X, IllFormed Why = result_of<Op, X>> \
  Why name(const X&)
// NOLINTEND(bugprone-macro-parentheses)

/// max(x, 0). This and the functions below are for floating-point elements, in any layout but a pending one. The result
/// has the same layout.
SHARDWISE_ACTIVATION(relu, ReluOp);

SHARDWISE_ACTIVATION(tanh, TanhOp);

/// x Φ(x), with the normal distribution function itself.
SHARDWISE_ACTIVATION(gelu, GeluOp);

/// The tanh approximation of gelu (Hendrycks and Gimpel, 2016).
SHARDWISE_ACTIVATION(gelu_tanh, GeluTanhOp);

/// x times the logistic function of x.
SHARDWISE_ACTIVATION(silu, SiluOp);
#undef SHARDWISE_ACTIVATION

}  // namespace shardwise
