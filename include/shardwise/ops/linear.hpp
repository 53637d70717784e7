// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `linear`: the last dimensions of an activation against a weight stored `[out…, in…]`, with or without a bias, as
/// torch.nn.functional.linear. Features may be several dimensions: `[heads, head_dim]` is sharded by whole heads.
///
/// ```
/// y = linear(x, w);         // y[r…, o…] = Σ_i x[r…, i] w[o…, i]
/// y = linear(x, w, b);      // and + b[o…]
/// y = linear<2>(x, w);      // Σ over two dimensions: x[r…, i, j] w[o…, i, j]
/// ```
/// Along one axis, besides all `Replicate` and all `Reduced`: (`Reduced`, `Shard<out>`) gives `Shard`;
/// (`Shard<in>`, `Shard<in>`) gives `Partial`; (`Shard<row>`, `Reduced`) gives `Shard<row>`; one `Partial`
/// beside a `Reduced` gives `Partial`. The bias has the layout of the result: `Partial` on a `Partial` result, so
/// that it is added once.

#include <shardwise/kernel/reduce.hpp>
#include <shardwise/ops/contract.hpp>

namespace shardwise {

template <int Contracted>
struct LinearOp : detail::Contraction<LinearOp<Contracted>> {
  static constexpr const char* name = "linear";
  static constexpr Signature signature =
      Signature::of("...k*, o*k* -> ...o*").dimensions('k', Contracted).linear_in_each();
};

/// The bias is added to every row while the product is in the cache.
template <int Contracted>
struct LinearBiasOp {
  using Product = LinearOp<Contracted>;
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
    kernel::add(b.elements(), y.data, b.data, y.data, detail::rows_of(y, b));
  }

  static void pull_back(auto dy, auto y, const void* residual, auto x, auto w, auto b) {
    Product::pull_back(dy, y, residual, x, w);
    if (b.gradient) kernel::sum_rows(detail::rows_of(dy, b), b.elements(), dy.data, b.gradient, b.accumulate);
  }
};

/// x: [r…, in…], w: [out…, in…] with `Contracted` dimensions `in…`; the result is [r…, out…].
template <int Contracted = 1, Operand X, Operand W,
          WellFormed Result = result_of<detail::op_for<LinearOp<Contracted>, W>, X, W>>
constexpr auto linear(const X& x, const W& w) {
  return apply(detail::op_for<LinearOp<Contracted>, W>{}, x, w);
}
template <int Contracted = 1, class X, class W,
          IllFormed Why = result_of<detail::op_for<LinearOp<Contracted>, W>, X, W>>
Why linear(const X&, const W&);  // see Why: LayoutError<Reason, On<>, Expected<>, Got<>, Cure<>>

/// The same plus b: [out…] in every row.
template <int Contracted = 1, Operand X, Operand W, Operand B,
          WellFormed Result = result_of<LinearBiasOp<Contracted>, X, W, B>>
constexpr auto linear(const X& x, const W& w, const B& b) {
  return apply(LinearBiasOp<Contracted>{}, x, w, b);
}
template <int Contracted = 1, class X, class W, class B,
          IllFormed Why = result_of<LinearBiasOp<Contracted>, X, W, B>>
Why linear(const X&, const W&, const B&);  // see Why

SHARDWISE_COMPILE_OPERATION(LinearOp<1>, 2, 2, 2)
SHARDWISE_COMPILE_OPERATION(LinearOp<1>, 3, 3, 2)
SHARDWISE_COMPILE_OPERATION(LinearBiasOp<1>, 2, 2, 2, 1)
SHARDWISE_COMPILE_OPERATION(LinearBiasOp<1>, 3, 3, 2, 1)

}  // namespace shardwise
