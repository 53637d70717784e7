// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `take_along_dim`: elements of each row at indices of its own, as `torch.take_along_dim` and `numpy.take_along_axis`.
///
/// ```
/// best = take_along_dim(scores, top_k(scores, 8));   // [tokens, experts] to [tokens, 8]
/// ```

#include <shardwise/kernel/arithmetic.hpp>
#include <shardwise/kernel/embedding.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

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
    each(ids, x.columns(), [&](Index i, Index at) { y.data[i] = x.data[at]; });
  }
  template <class T, class Id, int Rank>
  static void pull_back(View<const T, Rank> dy, View<const T, Rank>, const void*, Input<T, Rank> x,
                        Input<Id, Rank> ids) {
    if (!x.accumulate) kernel::fill<T>(x.elements(), 0, x.gradient);
    each(ids, x.columns(), [&](Index i, Index at) {
      T& to = x.gradient[at];
      to = kernel::narrow<T>(kernel::widen(to) + kernel::widen(dy.data[i]));
    });
  }

 private:
  /// Calls f(element of ids, element of x).
  static void each(const auto& ids, Index n, auto f) {
    const Index k = ids.columns();
    for (Index i = 0; i < ids.elements(); ++i) f(i, i / k * n + static_cast<Index>(ids.data[i]));
  }
};

/// y[r, j] = x[r, ids[r, j]]. x: [r…, n], where n is whole on every rank; ids: integers, [r…, k]; the result is [r…, k].
/// Throws `std::invalid_argument` if the rows differ, and `std::out_of_range`, on the rank that holds it, for an index
/// outside [0, n).
SHARDWISE_FUNCTION(take_along_dim, TakeAlongDimOp);

}  // namespace shardwise
