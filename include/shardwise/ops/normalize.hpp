// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `normalize`: vectors along an unsharded dimension, divided by their 2-norm.
///
/// ```
/// directions = normalize(x);   // of each row, along the last dimension
/// ```

#include <shardwise/kernel/reduce.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/softmax.hpp>

namespace shardwise {

template <int Dim>
struct NormalizeOp {
  double epsilon;

  static constexpr Saved saved{.output = true};
  static constexpr int flops_each = 3, gradient_flops_each = 5;

  template <int Rank>
  static constexpr Signature signature() {
    return SoftmaxOp<Dim>::template signature<Rank>();
  }

  constexpr void check() const {
    if (!(epsilon > 0)) detail::fail({"normalize: epsilon is ", epsilon, ", which must be more than 0"});
  }

  /// The divisors of the vectors.
  template <class T, int Rank>
  static constexpr Index residual_bytes(const auto&, const View<const T, Rank>& x) {
    return x.extent(0, dim<Rank>) * x.extent(dim<Rank> + 1, Rank) *
           static_cast<Index>(sizeof(kernel::compute_t<T>));
  }

  template <class T, int Rank>
  void forward(View<T, Rank> y, void* norms, View<const T, Rank> x) const {
    const auto [outer, n, inner, all] = detail::folded(x, Dim);
    kernel::normalize(outer, n, inner, epsilon, x.data, static_cast<kernel::compute_t<T>*>(norms), y.data);
  }
  template <class T, int Rank>
  void pull_back(View<const T, Rank> dy, View<const T, Rank> y, const void* norms, Input<T, Rank> x) const {
    const auto [outer, n, inner, all] = detail::folded(y, Dim);
    kernel::normalize_backward(outer, n, inner, epsilon, y.data,
                               static_cast<const kernel::compute_t<T>*>(norms), dy.data, x.gradient);
  }

 private:
  template <int Rank>
  static constexpr int dim = detail::dimension(Dim, Rank);
};

/// x / max(‖x‖₂, epsilon) along dimension `Dim`, the last if not given, as PyTorch's `F.normalize`. The result has the
/// shape and the layout of x. The squares must not overflow. Throws `std::invalid_argument` unless epsilon is positive.
template <int Dim = -1, Operand X, WellFormed Result = result_of<NormalizeOp<Dim>, X>>
constexpr auto normalize(const X& x, double epsilon = 1e-12) {
  return apply(NormalizeOp<Dim>{epsilon}, x);
}
template <int Dim = -1, Operand X, IllFormed Why = result_of<NormalizeOp<Dim>, X>>
Why normalize(const X&, double = 1e-12);  // see Why

}  // namespace shardwise
