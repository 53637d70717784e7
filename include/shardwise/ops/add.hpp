// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `add`: the sum of two tensors of one shape, or of a tensor and a bias in every row. It is linear in both
/// together: pending sums add up to a pending sum, but a pending sum and a finished value do not compile,
/// because every rank would add the value once more.
///
/// ```
/// y = add(x, branch);   // the residual connection; backward hands one gradient to both, without a copy
/// y = add(x, bias);     // y[r…, c…] = x[r…, c…] + bias[c…]
/// ```
/// Along one axis two tensors of one shape lie alike, and so does the sum. A bias lies as x does in the
/// dimensions that it has, and is `Reduced` where x is sharded in another one.

#include <shardwise/kernel/reduce.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

/// b has the last `RankB` dimensions of a.
template <int RankA, int RankB>
struct AddOp {
  static constexpr Saved saved{};
  static constexpr bool accumulates = true;
  static constexpr unsigned passes = RankA == RankB ? 0b11 : 0b01;
  static constexpr int rows = RankA - RankB;  ///< that many leading dimensions are only a's
  static constexpr int gradient_flops_each = rows == 0 ? 0 : 1;  ///< of a bias: a sum over the rows

  template <int, int>
  static constexpr Signature signature() {
    if (rows < 0) return {};
    Indices leading = Indices::range('A', rows), common = Indices::range('a', RankB);
    return Signature::of(leading.then(common), common, leading.then(common)).linear_jointly();
  }

  static constexpr Shape<RankA> shape(const Shape<RankA>& a, const Shape<RankB>& b) {
    for (int i = 0; i < b.size(); ++i) {
      if (a[rows + i] != b[i]) {
        detail::fail({"add: ", b, " cannot be added to ", a, ", whose dimension ", rows + i, " has ",
                      a[rows + i], " elements, not ", b[i]});
      }
    }
    return a;
  }

  template <class T>
  static void forward(View<T, RankA> y, void*, View<const T, RankA> a, View<const T, RankB> b) {
    const Index columns = b.elements();
    for (Index row = 0; row < a.extent(0, rows); ++row) {
      kernel::add(columns, a.data + row * columns, b.data, y.data + row * columns);
    }
  }

  template <class T>
  static void pull_back(View<const T, RankA> dy, View<const T, RankA>, const void*, Input<T, RankA> a,
                        Input<T, RankB> b) {
    if (a.gradient && a.accumulate) kernel::accumulate(dy.elements(), dy.data, a.gradient);
    if (a.gradient && !a.accumulate) kernel::copy(dy.elements(), dy.data, a.gradient);
    if (b.gradient) {
      kernel::sum_rows(dy.extent(0, rows), b.elements(), dy.data, b.gradient, b.accumulate);
    }
  }
};

template <class A, class B>
using AddOpFor = AddOp<rank_of<A>, rank_of<B>>;

/// a: [r…, c…], b: [r…, c…] or [c…]; the result is [r…, c…]. Throws `std::invalid_argument` if an extent
/// differs.
template <Operand A, Operand B, WellFormed Result = result_of<AddOpFor<A, B>, A, B>>
constexpr auto add(const A& a, const B& b) {
  return apply(AddOpFor<A, B>{}, a, b);
}
template <class A, class B, IllFormed Why = result_of<AddOpFor<A, B>, A, B>>
Why add(const A&, const B&);  // see Why

}  // namespace shardwise
