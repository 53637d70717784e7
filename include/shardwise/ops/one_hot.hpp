// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `one_hot`: a class as a row with a 1 at its place.
///
/// ```
/// targets = one_hot<float>(ids, classes);   // [batch] to [batch, classes]
/// ```

#include <shardwise/kernel/embedding.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

template <class T>
struct OneHotOp {
  using Element = T;
  Index classes;

  static constexpr Signature signature = Signature::of("... -> ...c").without_gradient(0);
  static constexpr Propagated rule(const Signature& own, const OperandPlacements& at) {
    return at[0] == reduced ? Propagated{reduced} : propagate(own, at);
  }
  static constexpr int flops_each = 0;

  constexpr void check() const {
    if (classes < 0) detail::fail({"one_hot: classes is ", classes, ", which must be 0 or more"});
  }
  template <int Rank>
  constexpr auto shape(const Shape<Rank>& ids) const {
    return joined(ids, Shape<1>{classes});
  }

  template <class Id, int Rank>
  void forward(View<T, Rank + 1> y, void*, View<const Id, Rank> ids) const {
    const Index wrong = kernel::check_ids(ids.elements(), ids.data, classes);
    if (wrong >= 0) {
      detail::fail<std::out_of_range>({"one_hot: ", ids.data[wrong], " at ",
                                       detail::position(ids.size, wrong, ids.begin), " is not one of the ",
                                       classes, " classes"});
    }
    kernel::fill<T>(y.elements(), 0, y.data);
    for (Index i = 0; i < ids.elements(); ++i) y.data[i * classes + static_cast<Index>(ids.data[i])] = T(1);
  }
};

/// ids: integers, [t…]; the result is [t…, classes], of elements `T`: 1 at the id, and 0 elsewhere. The classes are
/// whole on every rank, and the other dimensions have the layout of the ids. Throws `std::invalid_argument` if
/// `classes` is negative, and `std::out_of_range`, on the rank that holds it, for an id outside [0, classes).
template <class T, Operand Ids, WellFormed Result = result_of<OneHotOp<T>, Ids>>
constexpr auto one_hot(const Ids& ids, Index classes) {
  return apply(OneHotOp<T>{classes}, ids);
}
template <class T, Operand Ids, IllFormed Why = result_of<OneHotOp<T>, Ids>>
Why one_hot(const Ids&, Index);  // see Why

}  // namespace shardwise
