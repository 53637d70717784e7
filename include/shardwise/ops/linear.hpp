// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `linear`: `matmul`, and a bias. The bias lies as the result does: `Partial` on a `Partial` result, so that it is
/// added once.
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
  static constexpr Saved saved{.inputs = 0b011};
  static constexpr bool accumulates = true;
  static constexpr bool parameters_first = true;
  static constexpr bool reads_crosswise = true;

  template <int RankX, int RankW, int RankB>
  static constexpr Signature signature() {
    Signature product = Product::template signature<RankX, RankW>();
    if (product.count == 0 || RankB != RankW - Contracted) return {};
    product.operands[2] = Indices::range('a', RankB);
    product.differentiable[2] = true;
    product.count = 3;
    return product;
  }
  /// The bias meets the product as the terms of a sum do.
  template <int RankX, int RankW, int RankB>
  static constexpr Propagated rule(const OperandPlacements& at) {
    Signature product = Product::template signature<RankX, RankW>();
    Propagated y = propagate(product, at);
    if (!y.legal()) return y;
    Signature sum =
        Signature::of(product.result, Indices::range('a', RankB), product.result).linear_jointly();
    return propagate(sum, {y.placement, at[2]});
  }

  template <int RankX, int RankW, int RankB>
  static constexpr auto shape(const Shape<RankX>& x, const Shape<RankW>& w, const Shape<RankB>& b) {
    for (int i = 0; i < RankB; ++i) {
      if (b[i] != w[i]) {
        detail::fail(
            {"linear: the bias has ", b[i], " elements in dimension ", i, ", but the weight gives ", w[i]});
      }
    }
    return Product::shape(x, w);
  }

  template <class Y, class X, class W, class B>
  static constexpr std::int64_t flops(const Y& y, const X& x, const W& w, const B&) {
    return Product::flops(y, x, w) + y.elements();
  }
  template <class Y, class X, class W, class B>
  static constexpr std::int64_t gradient_flops(unsigned wanted, const Y& y, const X& x, const W& w,
                                               const B&) {
    return std::popcount(wanted & 0b11u) * Product::flops(y, x, w) + (wanted >> 2) * y.elements();
  }

  template <class T, int RankY, int RankX, int RankW, int RankB>
  static void forward(View<T, RankY> y, void* residual, View<const T, RankX> x, View<const T, RankW> w,
                      View<const T, RankB> b) {
    Product::forward(y, residual, x, w);
    kernel::add_rows(Product::rows(x), Product::outputs(w), b.data, y.data);
  }

  template <class T, int RankY, int RankX, int RankW, int RankB>
  static void pull_back(View<const T, RankY> dy, View<const T, RankY> y, const void* residual,
                        Input<T, RankX> x, Input<T, RankW> w, Input<T, RankB> b) {
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
