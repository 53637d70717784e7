// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Operations of one operand whose result has no gradient, and elements of another type: indices of elements, or
/// numbers that depend on indices.

#include <shardwise/ops/apply.hpp>

namespace shardwise::detail {

/// A tensor type, abstract or not, with elements `T` and without a gradient. A `LayoutError` stays what it is.
template <class T, class Y>
struct Untracked : TypeIs<Y> {};
template <class T, TensorType Y>
struct Untracked<T, Y> : TypeIs<tensor_with<T, Y::rank, typename Y::MeshOf, packed(Y::layout)>> {};
template <class T, class Y, bool OnTape, bool Tracked>
struct Untracked<T, Abstract<Y, OnTape, Tracked>>
    : TypeIs<Abstract<typename Untracked<T, Y>::type, OnTape, false>> {};

template <class T, class Op, class X>
using untracked_result = typename Untracked<T, result_of<Op, X>>::type;

/// `apply`, with elements `T`. The result is on the tape of x, if there is one, as a constant.
template <class T, class Op, Operand X>
constexpr auto apply_untracked(const Op& op, const X& x) {
  using Y = untracked_result<T, Op, X>;
  if constexpr (AbstractOperand<Y>) {
    return Y();
  } else {
    Buffer residual;
    Y y = evaluate<Y>(op, residual, value_of(x));
    if constexpr (OperandTraits<X>::on_tape) {
      return Var<Y, false>(x.tape(), std::move(y));
    } else {
      return y;
    }
  }
}

}  // namespace shardwise::detail
