// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `softmax` along an unsharded dimension. The others may have any placement but `Partial`.
///
/// ```
/// y = softmax(x);       // along the last dimension
/// y = softmax<1>(x);
/// ```

#include <shardwise/kernel/softmax.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

template <int Dim>
struct SoftmaxOp {
  static constexpr const char* name = "softmax";
  static constexpr Saved saved{.output = true};
  static constexpr int flops_each = 4;  // maximum, exponential, sum, scale

  template <int Rank>
  static constexpr Signature signature() {
    if (!detail::has_dimension(Dim, Rank)) return {.no_such_dimension = true};
    Indices x = Indices::range('a', Rank);
    return Signature::of(x, x).whole(x[detail::dimension(Dim, Rank)]);
  }

  static void forward(auto y, void*, auto x) {
    const auto [outer, n, inner, all] = detail::folded(x, Dim);
    kernel::softmax(outer, n, inner, x.data, y.data);
  }
  static void pull_back(auto dy, auto y, const void*, auto x) {
    const auto [outer, n, inner, all] = detail::folded(y, Dim);
    kernel::softmax_backward(outer, n, inner, y.data, dy.data, x.gradient);
  }
};

/// The result has the shape of x; along `Dim` (the last if not given) it sums to 1.
template <int Dim = -1, Operand X, class Result = result_of<SoftmaxOp<Dim>, X>>
constexpr auto softmax(const X& x) {
  return apply(SoftmaxOp<Dim>{}, x);
}
template <int Dim = -1, Operand X, IllFormed Why = result_of<SoftmaxOp<Dim>, X>>
Why softmax(const X&);  // see Why

}  // namespace shardwise
