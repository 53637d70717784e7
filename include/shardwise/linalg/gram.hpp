// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `gram`: the products of all pairs of columns, xᵀ · x, with half the flops of a product. Rows may be cut, which
/// gives a pending sum; columns are whole on every rank.
///
/// ```
/// g = redistribute<tp, Replicate>(gram(x));   // x: [m, n], Shard<0> on tp
/// ```

#include <shardwise/kernel/factor.hpp>
#include <shardwise/linalg/batch.hpp>

namespace shardwise {

struct GramOp {
  static constexpr Signature signature = Signature::of("...mi -> ...ij").whole('i');
  static constexpr Saved saved{.inputs = 0b1};
  static constexpr bool accumulates = true;

  template <int Rank>
  static constexpr Shape<Rank> shape(Shape<Rank> x) {
    x[Rank - 2] = x[Rank - 1];
    return x;
  }
  static constexpr std::int64_t flops(const auto& y, const auto& x) {
    return x.elements() * (y.columns() + 1);
  }
  static constexpr std::int64_t gradient_flops(unsigned, const auto& y, const auto& x) {
    return 2 * x.elements() * y.columns();
  }

  template <class T, int Rank>
  static void forward(View<T, Rank> y, void*, View<const T, Rank> x) {
    const Index m = x.size[Rank - 2], n = x.columns();
    for (Index i = 0; i < y.extent(0, Rank - 2); ++i) {
      kernel::gram(m, n, x.data + i * m * n, y.data + i * n * n);
    }
  }
  /// dx = x · (dy + dyᵀ)
  template <class T, int Rank>
  static void pull_back(View<const T, Rank> dy, View<const T, Rank>, const void*, Input<T, Rank> x) {
    using enum kernel::Transpose;
    const Index m = x.size[Rank - 2], n = x.columns();
    for (Index i = 0; i < dy.extent(0, Rank - 2); ++i) {
      const T *block = x.data + i * m * n, *of_y = dy.data + i * n * n;
      T* dx = x.gradient + i * m * n;
      kernel::gemm(no, no, m, n, n, block, n, of_y, n, dx, n, x.accumulate);
      kernel::gemm(no, yes, m, n, n, block, n, of_y, n, dx, n, true);
    }
  }
};

/// x: [b…, m, n], float or double; the result is [b…, n, n].
template <Operand X, WellFormed Result = detail::factored<GramOp, X>>
constexpr auto gram(const X& x) {
  return apply(GramOp{}, x);
}
template <class X, IllFormed Why = detail::factored<GramOp, X>>
Why gram(const X&);  // see Why

}  // namespace shardwise
