// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `linear`: `matmul`, and a bias. The bias has the layout of the result: `Partial` on a `Partial` result, so that it
/// is added once.
///
/// ```
/// y = linear(x, w, b);      // y[r…, o…] = Σ_i x[r…, i] w[o…, i] + b[o…]
/// ```

#include <shardwise/kernel/reduce.hpp>
#include <shardwise/ops/matmul.hpp>

namespace shardwise {

/// matmul, and a bias added to every row while the product is in the cache.
template <int Contracted>
struct LinearOp {
  using Product = MatmulOp<Contracted>;
  static constexpr const char* name = "linear";
  static constexpr Signature signature =
      Signature::of("...k*, o*k*, o* -> ...o*").dimensions('k', Contracted).linear_in_each();
  static constexpr Saved saved{.inputs = 0b011};
  static constexpr bool accumulates = true;
  static constexpr bool parameters_first = true;
  static constexpr bool reads_crosswise = true;

  /// The bias meets the product as the terms of a sum do.
  static constexpr Propagated rule(const Signature& own, const OperandPlacements& at) {
    const Propagated y = propagate(own.with(&Signature::count, 2), at);
    if (!y.legal()) return y;
    return propagate(Signature::of(own.result, own.operands[2], own.result).linear_jointly(),
                     {y.placement, at[2]});
  }

  static constexpr std::int64_t flops(const auto& y, const auto& x, const auto& w, const auto&) {
    return Product::flops(y, x, w) + y.elements();
  }
  static constexpr std::int64_t gradient_flops(unsigned wanted, const auto& y, const auto& x, const auto& w,
                                               const auto&) {
    return std::popcount(wanted & 0b11u) * Product::flops(y, x, w) + (wanted >> 2) * y.elements();
  }

  static void forward(auto y, void* residual, auto x, auto w, auto b) {
    Product::forward(y, residual, x, w);
    kernel::add_rows(Product::rows(x), Product::outputs(w), b.data, y.data);
  }

  static void pull_back(auto dy, auto y, const void* residual, auto x, auto w, auto b) {
    Product::pull_back(dy, y, residual, x, w);
    if (b.gradient) {
      kernel::sum_rows(Product::rows(x), Product::outputs(w), dy.data, b.gradient, b.accumulate);
    }
  }
};

/// matmul plus b: [out…] in every row.
template <int Contracted = 1, Operand X, Operand W, Operand B,
          WellFormed Result = result_of<LinearOp<Contracted>, X, W, B>>
constexpr auto linear(const X& x, const W& w, const B& b) {
  return apply(LinearOp<Contracted>{}, x, w, b);
}
template <int Contracted = 1, class X, class W, class B,
          IllFormed Why = result_of<LinearOp<Contracted>, X, W, B>>
Why linear(const X&, const W&, const B&);  // see Why

}  // namespace shardwise
