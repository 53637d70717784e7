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
  static constexpr const char* name = "matmul";
  static constexpr Signature signature =
      Signature::of("...k*, o*k* -> ...o*").dimensions('k', Contracted).linear_in_each();
  static constexpr Saved saved{.inputs = 0b11};
  static constexpr bool accumulates = true;
  static constexpr bool parameters_first = true;
  static constexpr bool reads_crosswise = true;

  static constexpr std::int64_t flops(const auto&, const auto& x, const auto& w) {
    return 2 * x.elements() * outputs(w);
  }

  static void forward(auto y, void*, auto x, auto w) {
    using kernel::Transpose;
    const Index m = rows(x), n = outputs(w), k = features(w);
    kernel::gemm(Transpose::no, Transpose::yes, m, n, k, x.data, k, w.data, k, y.data, n, false);
  }

  static void pull_back(auto dy, auto, const void*, auto x, auto w) {
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
