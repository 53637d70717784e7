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
/// y = linear<1, SumOrder::fixed>(x, w);   // the same bits in any batch and on any mesh
/// ```
/// Along one axis, besides all `Replicate` and all `Reduced`: (`Reduced`, `Shard<out>`) gives `Shard`;
/// (`Shard<in>`, `Shard<in>`) gives `Partial`; (`Shard<row>`, `Reduced`) gives `Shard<row>`; one `Partial`
/// beside a `Reduced` gives `Partial`. The bias has the layout of the result: `Partial` on a `Partial` result, so
/// that it is added once.

#include <shardwise/kernel/reduce.hpp>
#include <shardwise/kernel/row_product.hpp>
#include <shardwise/ops/contract.hpp>

namespace shardwise {

/// The order in which a product adds up numbers: the fastest for its extents, or one for all extents, so that each
/// number of the result has the same bits as if it were alone (kernel/row_product.hpp). Such a product takes
/// finished sums, and is not one over ranks.
enum class SumOrder : bool { fastest, fixed };

namespace detail {

/// `text` with `contracted` dimensions k.
constexpr Signature linear_signature(std::string_view text, int contracted, SumOrder order) {
  Signature op = Signature::of(text).dimensions('k', contracted);
  if (order == SumOrder::fastest) return op.linear_in_each();
  for (int i = 0; i < contracted; ++i) op = op.whole(op.operands[1][1 + i]);
  return op;
}

template <class Op, int Contracted, SumOrder Order>
struct LinearProduct : Contraction<Op> {
  static constexpr const char* name = "linear";
  static constexpr Signature signature = linear_signature("...k*, o*k* -> ...o*", Contracted, Order);

  template <class T, int Y, int A, int B>
  static void forward(View<T, Y> y, void* residual, View<const T, A> x, View<const T, B> w) {
    if constexpr (Order == SumOrder::fastest) {
      Contraction<Op>::forward(y, residual, x, w);
    } else {
      const Index rows = x.extent(0, A - Contracted), out = w.extent(0, B - Contracted),
                  in = w.extent(B - Contracted, B);
      kernel::row_product(rows, out, in, x.data, in, w.data, in, y.data, out);
    }
  }
};

}  // namespace detail

template <int Contracted>
struct LinearOp : detail::LinearProduct<LinearOp<Contracted>, Contracted, SumOrder::fastest> {};
/// With `SumOrder::fixed`.
template <int Contracted>
struct FixedLinearOp : detail::LinearProduct<FixedLinearOp<Contracted>, Contracted, SumOrder::fixed> {};

namespace detail {

/// The bias is added to every row while the product is in the cache.
template <class Op, int Contracted, SumOrder Order>
struct LinearWithBias {
  using Product = Op;
  static constexpr const char* name = "linear";
  static constexpr Signature signature = linear_signature("...k*, o*k*, o* -> ...o*", Contracted, Order);
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
    kernel::add(b.elements(), y.data, b.data, y.data, rows_of(y, b));
  }

  static void pull_back(auto dy, auto y, const void* residual, auto x, auto w, auto b) {
    Product::pull_back(dy, y, residual, x, w);
    if (b.gradient) kernel::sum_rows(rows_of(dy, b), b.elements(), dy.data, b.gradient, b.accumulate);
  }
};

}  // namespace detail

template <int Contracted>
struct LinearBiasOp : detail::LinearWithBias<LinearOp<Contracted>, Contracted, SumOrder::fastest> {};
template <int Contracted>
struct FixedLinearBiasOp : detail::LinearWithBias<FixedLinearOp<Contracted>, Contracted, SumOrder::fixed> {};

namespace detail {
template <int Contracted, SumOrder Order>
using linear_op =
    std::conditional_t<Order == SumOrder::fixed, FixedLinearOp<Contracted>, LinearOp<Contracted>>;
template <int Contracted, SumOrder Order>
using linear_bias_op =
    std::conditional_t<Order == SumOrder::fixed, FixedLinearBiasOp<Contracted>, LinearBiasOp<Contracted>>;
}  // namespace detail

/// x: [r…, in…], w: [out…, in…] with `Contracted` dimensions `in…`; the result is [r…, out…].
template <int Contracted = 1, SumOrder Order = SumOrder::fastest, Operand X, Operand W,
          WellFormed Result = result_of<detail::op_for<detail::linear_op<Contracted, Order>, W>, X, W>>
constexpr auto linear(const X& x, const W& w) {
  return apply(detail::op_for<detail::linear_op<Contracted, Order>, W>{}, x, w);
}
template <int Contracted = 1, SumOrder Order = SumOrder::fastest, class X, class W,
          IllFormed Why = result_of<detail::op_for<detail::linear_op<Contracted, Order>, W>, X, W>>
Why linear(const X&, const W&);  // see Why: LayoutError<Reason, On<>, Expected<>, Got<>, Cure<>>

/// The same plus b: [out…] in every row.
template <int Contracted = 1, SumOrder Order = SumOrder::fastest, Operand X, Operand W, Operand B,
          WellFormed Result = result_of<detail::linear_bias_op<Contracted, Order>, X, W, B>>
constexpr auto linear(const X& x, const W& w, const B& b) {
  return apply(detail::linear_bias_op<Contracted, Order>{}, x, w, b);
}
template <int Contracted = 1, SumOrder Order = SumOrder::fastest, class X, class W, class B,
          IllFormed Why = result_of<detail::linear_bias_op<Contracted, Order>, X, W, B>>
Why linear(const X&, const W&, const B&);  // see Why

SHARDWISE_COMPILE_OPERATION(LinearOp<1>, 2, 2, 2)
SHARDWISE_COMPILE_OPERATION(LinearOp<1>, 3, 3, 2)
SHARDWISE_COMPILE_OPERATION(LinearBiasOp<1>, 2, 2, 2, 1)
SHARDWISE_COMPILE_OPERATION(LinearBiasOp<1>, 3, 3, 2, 1)

}  // namespace shardwise
