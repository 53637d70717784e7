// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `matmul`: the last dimensions of an activation against a weight stored `[out…, in…]`. Features may be several
/// dimensions: `[heads, head_dim]` is sharded by whole heads.
///
/// ```
/// y = matmul(x, w);         // y[r…, o…] = Σ_i x[r…, i] w[o…, i]
/// y = matmul<2>(x, w);      // Σ over two dimensions: x[r…, i, j] w[o…, i, j]
/// ```
/// Along one axis, besides all `Replicate` and all `Reduced`: (`Reduced`, `Shard<out>`) gives `Shard`;
/// (`Shard<in>`, `Shard<in>`) gives `Partial`; (`Shard<row>`, `Reduced`) gives `Shard<row>`; one `Partial`
/// beside a `Reduced` gives `Partial`.

#include <shardwise/kernel/gemm.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

template <int Contracted>
struct MatmulOp {
  static constexpr Saved saved{.inputs = 0b11};
  static constexpr bool accumulates = true;
  static constexpr bool parameters_first = true;
  static constexpr bool reads_crosswise = true;

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
    using kernel::Transpose;
    const Index m = rows(x), n = outputs(w), k = features(w);
    kernel::gemm(Transpose::no, Transpose::yes, m, n, k, x.data, k, w.data, k, y.data, n, false);
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

/// x: [r…, in…], w: [out…, in…] with `Contracted` dimensions `in…`; the result is [r…, out…].
template <int Contracted = 1, Operand X, Operand W, WellFormed Result = result_of<MatmulOp<Contracted>, X, W>>
constexpr auto matmul(const X& x, const W& w) {
  return apply(MatmulOp<Contracted>{}, x, w);
}
template <int Contracted = 1, class X, class W, IllFormed Why = result_of<MatmulOp<Contracted>, X, W>>
Why matmul(const X&, const W&);  // see Why: LayoutError<Reason, On<>, Expected<>, Got<>, Cure<>>

}  // namespace shardwise
