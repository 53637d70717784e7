// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Operators on tensors, `Var`s and parameters: `x + y` is `add(x, y)`, `x - y` is `sub(x, y)`, `-x` is `scale(x, -1)`.
/// With a number c, `c * x` and `x * c` are `scale(x, c)`, and `x / c` is `scale(x, 1 / c)`. Layouts that do not fit
/// give the same errors as these functions. `x * y` of two tensors is refused, because it could mean `mul` or `matmul`.

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/add.hpp>
#include <shardwise/ops/arithmetic.hpp>

namespace shardwise {

namespace detail {

template <class N>
concept Arithmetic = std::is_arithmetic_v<N>;

}  // namespace detail

template <Operand A, Operand B, WellFormed Result = result_of<AddOp, A, B>>
constexpr auto operator+(const A& a, const B& b) {
  return add(a, b);
}
template <class A, class B, IllFormed Why = result_of<AddOp, A, B>>
Why operator+(const A&, const B&);  // see Why

template <Operand A, Operand B, WellFormed Result = result_of<SubOp, A, B>>
constexpr auto operator-(const A& a, const B& b) {
  return sub(a, b);
}
template <class A, class B, IllFormed Why = result_of<SubOp, A, B>>
Why operator-(const A&, const B&);  // see Why

template <Operand X, WellFormed Result = result_of<ScaleOp, X>>
constexpr auto operator-(const X& x) {
  return scale(x, -1);
}
template <Operand X, IllFormed Why = result_of<ScaleOp, X>>
Why operator-(const X&);  // see Why

template <detail::Arithmetic N, Operand X, WellFormed Result = result_of<ScaleOp, X>>
constexpr auto operator*(N factor, const X& x) {
  return scale(x, static_cast<double>(factor));
}
template <detail::Arithmetic N, Operand X, IllFormed Why = result_of<ScaleOp, X>>
Why operator*(N, const X&);  // see Why

template <Operand X, detail::Arithmetic N, WellFormed Result = result_of<ScaleOp, X>>
constexpr auto operator*(const X& x, N factor) {
  return scale(x, static_cast<double>(factor));
}
template <Operand X, detail::Arithmetic N, IllFormed Why = result_of<ScaleOp, X>>
Why operator*(const X&, N);  // see Why

/// x · (1 / divisor)
template <Operand X, detail::Arithmetic N, WellFormed Result = result_of<ScaleOp, X>>
constexpr auto operator/(const X& x, N divisor) {
  return scale(x, 1 / static_cast<double>(divisor));
}
template <Operand X, detail::Arithmetic N, IllFormed Why = result_of<ScaleOp, X>>
Why operator/(const X&, N);  // see Why

// The others are refused.
template <class A, class B>
  requires((Operand<A> || Operand<B>)&&!detail::Arithmetic<A> && !detail::Arithmetic<B>)
WrittenOtherwise<Hint::write_mul_or_matmul>
operator*(const A&, const B&);
template <class A, class B>
  requires((Operand<A> || Operand<B>)&&!detail::Arithmetic<B>)
WrittenOtherwise<Hint::write_mul_or_matmul>
operator/(const A&, const B&);
#define SHARDWISE_NO_OPERATOR(op)                 \
  template <class A, class B>                     \
    requires(Operand<A> || Operand<B>)            \
  WrittenOtherwise<Hint::write_x_equals_x_plus_y> \
  operator op(const A&, const B&)
SHARDWISE_NO_OPERATOR(+=);
SHARDWISE_NO_OPERATOR(-=);
SHARDWISE_NO_OPERATOR(*=);
SHARDWISE_NO_OPERATOR(/=);
#undef SHARDWISE_NO_OPERATOR

}  // namespace shardwise
