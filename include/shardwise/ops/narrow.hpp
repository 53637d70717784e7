// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `narrow`: a slice of an unsharded dimension.
///
/// ```
/// last = narrow<1>(x, length - 1, 1);   // the last token of every sequence
/// ```

#include <shardwise/kernel/arithmetic.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

template <int Dim>
struct NarrowOp {
  static constexpr const char* name = "narrow";
  Range kept;

  static constexpr Saved saved{};
  static constexpr bool takes_integers = true;
  static constexpr int flops_each = 0;

  template <int Rank>
  static constexpr Signature signature() {
    if (!detail::has_dimension(Dim, Rank)) return {.no_such_dimension = true};
    Indices x = Indices::range('a', Rank);
    return Signature::of(x, x).linear_in_each().whole(x[detail::dimension(Dim, Rank)]);
  }

  template <int Rank>
  constexpr auto shape(const Shape<Rank>& x) const {
    constexpr auto dim = detail::dimension(Dim, Rank);
    if (kept.begin < 0 || kept.size < 0 || kept.begin > x[dim] || kept.size > x[dim] - kept.begin) {
      detail::fail({"narrow: ", kept.begin, " to ", kept.end(), " is not within dimension ", dim, " of ", x});
    }
    Shape<Rank> y = x;
    y[dim] = kept.size;
    return y;
  }

  void forward(auto y, void*, auto x) const {
    const auto [outer, wide, row, all] = detail::folded(x, Dim);
    for (Index i = 0; i < outer; ++i) {
      kernel::copy(kept.size * row, x.data + (i * wide + kept.begin) * row, y.data + i * kept.size * row);
    }
  }
  template <class T, int Rank>
  void pull_back(View<const T, Rank> dy, View<const T, Rank>, const void*, Input<T, Rank> x) const {
    const auto [outer, wide, row, all] = detail::folded(x, Dim);
    kernel::fill<T>(x.elements(), 0, x.gradient);
    for (Index i = 0; i < outer; ++i) {
      kernel::copy(kept.size * row, dy.data + i * kept.size * row,
                   x.gradient + (i * wide + kept.begin) * row);
    }
  }
};

/// x at the indices [begin, begin + length) of dimension `Dim`, which may count from the end. Throws
/// `std::invalid_argument` if the dimension does not have them all.
template <int Dim, Operand X, class Result = result_of<NarrowOp<Dim>, X>>
constexpr auto narrow(const X& x, Index begin, Index length) {
  return apply(NarrowOp<Dim>{{begin, length}}, x);
}
template <int Dim, Operand X, IllFormed Why = result_of<NarrowOp<Dim>, X>>
Why narrow(const X&, Index, Index);  // see Why

}  // namespace shardwise
