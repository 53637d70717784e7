// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `argmax`: where the largest element of one dimension is, which is whole on every rank.
///
/// ```
/// next = argmax<-1>(logits);   // [batch, vocabulary] to the ids [batch]
/// ```

#include <shardwise/kernel/reduce.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

template <int Dim>
struct ArgmaxOp {
  using Element = std::int64_t;
  static constexpr bool takes_integers = true;

  template <int Rank>
  static constexpr Signature signature() {
    if (!detail::has_dimension(Dim, Rank)) return {.no_such_dimension = true};
    const Indices x = Indices::range('a', Rank);
    const char along = x[detail::dimension(Dim, Rank)];
    return Signature::of(x, x.without(along)).whole(along);
  }

  template <int Rank>
  static constexpr auto shape(const Shape<Rank>& x) {
    constexpr int dim = detail::dimension(Dim, Rank);
    if (x[dim] == 0) detail::fail({"argmax: dimension ", dim, " of ", x, " has no elements"});
    Shape<Rank - 1> y{};
    for (int i = 0; i < Rank - 1; ++i) y[i] = x[i < dim ? i : i + 1];
    return y;
  }

  static constexpr std::int64_t flops(const auto&, const auto& x) { return x.elements(); }
  static void forward(auto y, void*, auto x) {
    const auto [outer, n, inner, all] = detail::folded(x, Dim);
    kernel::argmax(outer, n, inner, x.data, y.data);
  }
};

/// The index of the largest element along dimension `Dim`, which the result lacks: an `std::int64_t`, without a
/// gradient. Of equal elements the first counts; a NaN counts as the largest. Takes integers too. Throws
/// `std::invalid_argument` if the dimension has no elements.
template <int Dim, Operand X, WellFormed Result = result_of<ArgmaxOp<Dim>, X>>
constexpr auto argmax(const X& x) {
  return apply(ArgmaxOp<Dim>{}, x);
}
template <int Dim, Operand X, IllFormed Why = result_of<ArgmaxOp<Dim>, X>>
Why argmax(const X&);  // see Why

}  // namespace shardwise
