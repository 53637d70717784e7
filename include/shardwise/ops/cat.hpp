// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `cat` and `stack` join tensors along an unsharded dimension. Backward, each operand gets its slice.
///
/// ```
/// y = cat<1>(a, b);     // a [r, n], b [r, m]: [r, n + m]
/// y = stack<0>(a, b);   // a and b [r, n]: [2, r, n]
/// ```
/// In the other dimensions all operands have one layout, and so has the result. Pending sums pass, if all are pending.

#include <shardwise/kernel/arithmetic.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

/// `Stack`: dimension `Dim` is new, and each operand is one index of it.
template <int Dim, bool Stack>
struct CatOp {
  static constexpr const char* name = Stack ? "stack" : "cat";
  static constexpr Saved saved{};
  static constexpr bool takes_integers = true;
  static constexpr int flops_each = 0;

  template <int First, int... Rest>
  static constexpr Signature signature() {
    constexpr int rank = First + (Stack ? 1 : 0);
    if (!((Rest == First) && ...) || rank > max_rank) return {};
    if (!detail::has_dimension(Dim, rank)) return {.no_such_dimension = true};
    Signature all;
    all.result = Indices::range('a', rank);
    const char along = all.result[detail::dimension(Dim, rank)];
    all = all.whole(along).linear_jointly();
    for (; all.count <= static_cast<int>(sizeof...(Rest)); ++all.count) {
      const auto own = static_cast<char>('p' + all.count);
      all.operands[all.count] = Stack ? all.result.without(along) : all.result.replaced(along, own);
      all.differentiable[all.count] = true;
      if (!Stack) all = all.whole(own);
    }
    return all;
  }

  template <int First, int... Rest>
  static constexpr auto shape(const Shape<First>& first, const Shape<Rest>&... rest) {
    constexpr Signature own = detail::signature_of<CatOp, First, Rest...>;
    constexpr int dim = detail::dimension(Dim, own.result.rank);
    const std::span<const Index> shapes[]{{first.data(), First}, {rest.data(), Rest}...};
    Shape<own.result.rank> y{};
    detail::fit(own, name, shapes, y.data());
    for (const auto& x : shapes) y[dim] += Stack ? 1 : x[dim];
    return y;
  }

  static void forward(auto y, void*, auto... x) {
    for_each_row(
        y, [&](auto& from, Index n, Index at, Index to) { kernel::copy(n, from.data + at, y.data + to); },
        x...);
  }
  static void pull_back(auto dy, auto, const void*, auto... x) {
    for_each_row(
        dy,
        [&](auto& to, Index n, Index at, Index from) {
          if (to.gradient) kernel::copy(n, dy.data + from, to.gradient + at);
        },
        x...);
  }

 private:
  /// Calls f(x, n, at, to) for each run of n elements: it begins at `at` in x and at `to` in y.
  template <class T, int Rank>
  static void for_each_row(const View<T, Rank>& y, auto f, auto&... x) {
    const Index rows = y.extent(0, detail::dimension(Dim, Rank));
    if (rows == 0) return;
    Index begin = 0;
    const auto run = [&](auto& each) {
      const Index n = each.elements() / rows;
      for (Index row = 0; row < rows; ++row) f(each, n, row * n, row * (y.elements() / rows) + begin);
      begin += n;
    };
    (run(x), ...);
  }
};

namespace detail {

template <int Dim, bool Stack, class... X>
struct CatResult : ResultOfOperands<CatOp<Dim, Stack>, X...> {};
template <int Dim, bool Stack, class... X>
  requires((Operand<X> || ...) && sizeof...(X) > 4)
struct CatResult<Dim, Stack, X...> : Refused<Reason::more_operands_than_four> {};
template <int Dim, bool Stack, class... X>
  requires(!(Operand<X> || ...))
struct CatResult<Dim, Stack, X...> : Refused<Reason::argument_is_not_a_tensor, Got<X...>> {};
template <int Dim, bool Stack, class... X>
using cat_result = typename CatResult<Dim, Stack, X...>::type;

}  // namespace detail

/// One to four tensors of one rank, one after the other along dimension `Dim`, which may count from the end.
/// Throws `std::invalid_argument` if they differ in the extent of another dimension.
template <int Dim, Operand... X, WellFormed Result = detail::cat_result<Dim, false, X...>>
constexpr auto cat(const X&... x) {
  return apply(CatOp<Dim, false>{}, x...);
}
template <int Dim, class... X, IllFormed Why = detail::cat_result<Dim, false, X...>>
Why cat(const X&...);  // see Why

/// One to four tensors of one shape, as the indices of a new dimension `Dim` of the result; -1 is its last.
/// Throws `std::invalid_argument` if the shapes differ.
template <int Dim, Operand... X, WellFormed Result = detail::cat_result<Dim, true, X...>>
constexpr auto stack(const X&... x) {
  return apply(CatOp<Dim, true>{}, x...);
}
template <int Dim, class... X, IllFormed Why = detail::cat_result<Dim, true, X...>>
Why stack(const X&...);  // see Why

}  // namespace shardwise
