// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `index_select`: the elements of one dimension at a list of indices, which may repeat; and `take_along_dim`: those of
/// each row at indices of its own.
///
/// ```
/// y = index_select<0>(x, ids);                            // y[i, c] = x[ids[i], c]
/// best = take_along_dim(scores, top_k(scores, 8));        // best[r, j] = scores[r, ids[r, j]]
/// ```
/// `index_select`: along one axis, besides whole operands: other dimensions of x may be sharded; sharded indices beside
/// an x that is `Reduced` give a sharded result; and if dimension `Dim` is sharded, each rank contributes what it owns
/// to a pending sum. `embedding` is the same for a table, with indices of any shape.

#include <shardwise/kernel/embedding.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

template <int Dim>
struct IndexSelectOp {
  static constexpr Saved saved{.inputs = 0b10};
  static constexpr bool takes_integers = true;
  static constexpr bool accumulates = true;
  static constexpr int flops_each = 0, gradient_flops_each = 1;

  template <int Rank, int Ids>
  static constexpr Signature signature() {
    if (!detail::has_dimension(Dim, Rank)) return {.no_such_dimension = true};
    if (Ids != 1) return {};
    const Indices x = Indices::range('a', Rank);
    return Signature::of(x, "z", x.replaced(x[detail::dimension(Dim, Rank)], 'z'))
        .linear_in_each()
        .without_gradient(1);
  }

  template <class T, class Id, int Rank>
  static void forward(View<T, Rank> y, void*, View<const T, Rank> x, View<const Id, 1> ids) {
    constexpr int dim = detail::dimension(Dim, Rank);
    const auto [outer, n, inner, all] = detail::folded(x, Dim);
    const Index wrong = kernel::check_ids(ids.size[0], ids.data, x.shape[dim]);
    if (wrong >= 0) {
      detail::fail<std::out_of_range>({"index_select: index ", ids.data[wrong], " at ", ids.begin[0] + wrong,
                                       " is outside dimension ", dim, " of ", x.shape});
    }
    for (Index i = 0; i < outer; ++i) {
      kernel::embedding(ids.size[0], ids.data, x.begin[dim], n, inner, x.data + i * n * inner,
                        y.data + i * ids.size[0] * inner);
    }
  }
  template <class T, class Id, int Rank>
  static void pull_back(View<const T, Rank> dy, View<const T, Rank>, const void*, Input<T, Rank> x,
                        Input<Id, 1> ids) {
    const auto [outer, n, inner, all] = detail::folded(x, Dim);
    if (!x.accumulate) kernel::fill<T>(x.elements(), 0, x.gradient);
    for (Index i = 0; i < outer; ++i) {
      kernel::embedding_backward(ids.size[0], ids.data, x.begin[detail::dimension(Dim, Rank)], n, inner,
                                 dy.data + i * ids.size[0] * inner, x.gradient + i * n * inner);
    }
  }
};

/// x: [a…, n, c…], where n is dimension `Dim`, which may count from the end; ids: integers, [k]; the result is
/// [a…, k, c…]. Throws `std::out_of_range`, on the rank that holds it, for an index outside [0, n).
template <int Dim, Operand X, Operand Ids, WellFormed Result = result_of<IndexSelectOp<Dim>, X, Ids>>
constexpr auto index_select(const X& x, const Ids& ids) {
  return apply(IndexSelectOp<Dim>{}, x, ids);
}
template <int Dim, class X, class Ids, IllFormed Why = result_of<IndexSelectOp<Dim>, X, Ids>>
Why index_select(const X&, const Ids&);  // see Why

struct TakeAlongDimOp {
  static constexpr const char* name = "take_along_dim";
  static constexpr Signature signature =
      Signature::of("...n, ...k -> ...k").linear_in_each().without_gradient(1).whole('n');
  static constexpr Saved saved{.inputs = 0b10};
  static constexpr bool accumulates = true;
  static constexpr int flops_each = 0, gradient_flops_each = 1;

  template <class T, class Id, int Rank>
  static void forward(View<T, Rank> y, void*, View<const T, Rank> x, View<const Id, Rank> ids) {
    const Index wrong = kernel::check_ids(ids.elements(), ids.data, x.columns());
    if (wrong >= 0) {
      detail::fail<std::out_of_range>({"take_along_dim: index ", ids.data[wrong], " at ",
                                       detail::position(ids.size, wrong, ids.begin),
                                       " is outside the last dimension of ", x.shape});
    }
    const Index n = x.columns(), k = ids.columns();
    for (Index r = 0; r < x.rows(); ++r) {
      kernel::embedding(k, ids.data + r * k, 0, n, 1, x.data + r * n, y.data + r * k);
    }
  }
  template <class T, class Id, int Rank>
  static void pull_back(View<const T, Rank> dy, View<const T, Rank>, const void*, Input<T, Rank> x,
                        Input<Id, Rank> ids) {
    if (!x.accumulate) kernel::fill<T>(x.elements(), 0, x.gradient);
    const Index n = x.columns(), k = ids.columns();
    for (Index r = 0; r < x.rows(); ++r) {
      kernel::embedding_backward(k, ids.data + r * k, 0, n, 1, dy.data + r * k, x.gradient + r * n);
    }
  }
};

/// y[r, j] = x[r, ids[r, j]]. x: [r…, n], where n is whole on every rank; ids: integers, [r…, k]; the result is [r…,
/// k]. Throws `std::invalid_argument` if the rows differ, and `std::out_of_range`, on the rank that holds it, for an
/// index outside [0, n).
SHARDWISE_FUNCTION(take_along_dim, TakeAlongDimOp);

}  // namespace shardwise
