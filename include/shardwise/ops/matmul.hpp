// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `matmul`: the last dimensions of an activation against a weight stored `[out…, in…]`, and `linear`, which
/// adds a bias. Features may be several dimensions: `[heads, head_dim]` is sharded by whole heads.
///
/// ```
/// y = matmul(x, w);         // y[r…, o…] = Σ_i x[r…, i] w[o…, i]
/// y = matmul<2>(x, w);      // Σ over two dimensions: x[r…, i, j] w[o…, i, j]
/// y = linear(x, w, b);      // + b[o…]
/// ```
/// Along one axis, besides all `Replicate` and all `Reduced`: (`Reduced`, `Shard<out>`) gives `Shard`;
/// (`Shard<in>`, `Shard<in>`) gives `Partial`; (`Shard<row>`, `Reduced`) gives `Shard<row>`; one `Partial`
/// beside a `Reduced` gives `Partial`. The bias lies as the result does: `Partial` on a `Partial` result, so
/// that it is added once.

#include <shardwise/kernel/gemm.hpp>
#include <shardwise/kernel/reduce.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

template <int Contracted>
struct MatmulOp {
  static constexpr Saved saved{.inputs = 0b11};
  static constexpr bool accumulates = true;

  /// Letters: rows from 'A', out from 'a', in from 'n'.
  template <int RankX, int RankW>
  static constexpr Signature signature() {
    if (RankX < Contracted || RankW < Contracted) return {};
    Indices rows = Indices::range('A', RankX - Contracted), out = Indices::range('a', RankW - Contracted),
            in = Indices::range('n', Contracted);
    return Signature::of(rows.then(in), out.then(in), rows.then(out)).linear_in_each();
  }

  template <int RankX, int RankW>
  static constexpr auto shape(const Shape<RankX>& x, const Shape<RankW>& w) {
    constexpr int rows = RankX - Contracted, out = RankW - Contracted;
    for (int i = 0; i < Contracted; ++i) {
      if (x[rows + i] != w[out + i]) {
        detail::fail({"matmul: x has ", x[rows + i], " features in dimension ", rows + i,
                      ", but the weight contracts ", w[out + i]});
      }
    }
    Shape<rows + out> y{};
    for (int i = 0; i < rows; ++i) y[i] = x[i];
    for (int i = 0; i < out; ++i) y[rows + i] = w[i];
    return y;
  }

  template <class Y, class X, class W>
  static constexpr std::int64_t flops(const Y&, const X& x, const W& w) {
    return 2 * x.elements() * outputs(w);
  }

  template <class T, int RankY, int RankX, int RankW>
  static void forward(View<T, RankY> y, void*, View<const T, RankX> x, View<const T, RankW> w) {
    product(y, x, w, false);
  }

  template <class T, int RankY, int RankX, int RankW>
  static void pull_back(View<const T, RankY> dy, View<const T, RankY>, const void*, Input<T, RankX> x,
                        Input<T, RankW> w) {
    using kernel::Transpose;
    const Index m = rows(x), n = outputs(w), k = features(w);
    if (x.gradient) {
      kernel::gemm(Transpose::no, Transpose::no, m, k, n, dy.data, n, w.data, k, x.gradient, k, x.accumulate);
    }
    if (w.gradient) {
      kernel::gemm(Transpose::yes, Transpose::no, n, k, m, dy.data, n, x.data, k, w.gradient, k,
                   w.accumulate);
    }
  }

  template <class T, int RankY, int RankX, int RankW>
  static void product(View<T, RankY> y, View<const T, RankX> x, View<const T, RankW> w, bool accumulate) {
    using kernel::Transpose;
    const Index m = rows(x), n = outputs(w), k = features(w);
    kernel::gemm(Transpose::no, Transpose::yes, m, n, k, x.data, k, w.data, k, y.data, n, accumulate);
  }
  template <class T, int Rank>
  static constexpr Index rows(const View<T, Rank>& x) {
    return x.extent(0, Rank - Contracted);
  }
  template <class T, int Rank>
  static constexpr Index outputs(const View<T, Rank>& w) {
    return w.extent(0, Rank - Contracted);
  }
  template <class T, int Rank>
  static constexpr Index features(const View<T, Rank>& w) {
    return w.extent(Rank - Contracted, Rank);
  }
};

/// matmul, and a bias added to every row while the product is in the cache.
template <int Contracted>
struct LinearOp {
  using Product = MatmulOp<Contracted>;
  static constexpr Saved saved{.inputs = 0b011};
  static constexpr bool accumulates = true;

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
  static constexpr std::int64_t gradient_flops(int wanted, const Y& y, const X& x, const W& w, const B&) {
    return (wanted - 1) * Product::flops(y, x, w) + y.elements();  // the bias is always among the wanted
  }

  template <class T, int RankY, int RankX, int RankW, int RankB>
  static void forward(View<T, RankY> y, void*, View<const T, RankX> x, View<const T, RankW> w,
                      View<const T, RankB> b) {
    Product::product(y, x, w, false);
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

/// x: [r…, in…], w: [out…, in…] with `Contracted` dimensions `in…`; the result is [r…, out…].
template <int Contracted = 1, Operand X, Operand W, class Result = result_of<MatmulOp<Contracted>, X, W>>
constexpr auto matmul(const X& x, const W& w) {
  return apply(MatmulOp<Contracted>{}, x, w);
}
template <int Contracted = 1, Operand X, Operand W, IllFormed Why = result_of<MatmulOp<Contracted>, X, W>>
Why matmul(const X&, const W&);  // see Why: LayoutError<Reason, On<>, Expected<>, Got<>, Cure<>>

/// matmul plus b: [out…] in every row.
template <int Contracted = 1, Operand X, Operand W, Operand B,
          class Result = result_of<LinearOp<Contracted>, X, W, B>>
constexpr auto linear(const X& x, const W& w, const B& b) {
  return apply(LinearOp<Contracted>{}, x, w, b);
}
template <int Contracted = 1, Operand X, Operand W, Operand B,
          IllFormed Why = result_of<LinearOp<Contracted>, X, W, B>>
Why linear(const X&, const W&, const B&);  // see Why

}  // namespace shardwise
