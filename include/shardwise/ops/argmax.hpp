// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `argmax`: the index of the largest element along an unsharded dimension; and `top_k`: the indices of the k largest
/// elements along the last dimension.
///
/// ```
/// next = argmax<-1>(logits);   // [batch, vocabulary] to the ids [batch]
/// ids = top_k(logits, 8);      // [tokens, experts] to [tokens, 8]
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

/// The dimension may consist of groups of equal size. The elements are then those of the groups whose two largest
/// elements have the largest sums (DeepSeek-AI, "DeepSeek-V3 technical report", 2024).
struct TopKOptions {
  Index groups = 1;
  Index kept_groups = 1;
};

struct TopKOp {
  using Element = std::int64_t;
  Index k;
  TopKOptions options;

  static constexpr const char* name = "top_k";
  static constexpr Signature signature = Signature::of("...n -> ...k").whole('n');

  template <int Rank>
  constexpr Shape<Rank> shape(const Shape<Rank>& x, const auto&... bias) const {
    const auto [groups, kept] = options;
    const Index n = x[Rank - 1];
    if (groups < 1 || kept < 1 || kept > groups || n % groups != 0) {
      detail::fail({"top_k: rows of ", n, " elements in ", groups, " groups, of which ", kept,
                    " are kept: the groups must divide the elements, and at least one be kept"});
    }
    if (k < 0 || k > n / groups * kept) {
      detail::fail({"top_k: k is ", k, ", but must be 0 to ", n / groups * kept,
                    ", the elements in the groups that are kept"});
    }
    if (((bias[0] != n) || ...))
      detail::fail({"top_k: the bias is ", bias..., ", for rows of ", n, " elements"});
    Shape<Rank> y = x;
    y[Rank - 1] = k;
    return y;
  }

  static constexpr std::int64_t flops(const auto& y, const auto& x, const auto&... bias) {
    return x.elements() * (y.columns() + static_cast<Index>(sizeof...(bias)));
  }
  void forward(auto y, void*, auto x, auto... bias) const {
    kernel::top_k(x.rows(), x.columns(), k, options.groups, options.kept_groups, x.data, y.data,
                  bias.data...);
  }
};
/// The same of x + bias. bias: [n], of x's element type, or of `float` beside `bfloat16`.
struct BiasedTopKOp : TopKOp {
  static constexpr Signature signature = Signature::of("...n, n -> ...k").whole('n');
  template <class X, class Bias>
  static constexpr bool takes = std::is_same_v<Bias, kernel::compute_t<X>>;
};

/// x: [r…, n]; the result is [r…, k], of `std::int64_t`, without a gradient: the indices of the k largest elements of
/// each row, the largest first. Of equal elements the first counts; a NaN counts as the largest. Throws
/// `std::invalid_argument` unless the groups divide n and contain k elements.
template <Operand X, WellFormed Result = result_of<TopKOp, X>>
constexpr auto top_k(const X& x, Index k, const TopKOptions& options = {}) {
  return apply(TopKOp{k, options}, x);
}
template <Operand X, IllFormed Why = result_of<TopKOp, X>>
Why top_k(const X&, Index, const TopKOptions& = {});  // see Why

}  // namespace shardwise
