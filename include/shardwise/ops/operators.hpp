// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Operators on tensors, `Var`s and parameters: `x + y` is `add(x, y)`, `x - y` is `sub(x, y)`, `x * y` is `mul(x, y)`,
/// element by element, and `x / y` is `div(x, y)`; `-x` is `scale(x, -1)`. With a number c, `c * x` and `x * c` are
/// `scale(x, c)`, `x / c` is `scale(x, 1 / c)`, `c / x` is c · `reciprocal(x)`; `x + c`, `c + x` and `x - c` are
/// `add_number`, and `c - x` is -x + c. Layouts that do not fit give the same errors as these functions.

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/activation.hpp>
#include <shardwise/ops/add.hpp>
#include <shardwise/ops/arithmetic.hpp>

namespace shardwise {

namespace detail {

template <class X>
concept NotArithmetic = !Arithmetic<X>;

}  // namespace detail

template <Operand X, WellFormed Result = result_of<ScaleOp, X>>
constexpr auto operator-(const X& x) {
  return scale(x, -1);
}
template <Operand X, IllFormed Why = result_of<ScaleOp, X>>
Why operator-(const X&);  // see Why

/// The last argument is the type of the result.
#define SHARDWISE_OPERATOR(symbol, First, Second, value, ...)                   \
  template <detail::First A, detail::Second B, WellFormed Result = __VA_ARGS__> \
  constexpr auto operator symbol(const A& a, const B& b) {                      \
    return value;                                                               \
  }                                                                             \
  template <detail::First A, detail::Second B, IllFormed Why = __VA_ARGS__>     \
  Why operator symbol(const A&, const B&)

SHARDWISE_OPERATOR(+, NotArithmetic, NotArithmetic, add(a, b), result_of<AddOp, A, B>);
SHARDWISE_OPERATOR(-, NotArithmetic, NotArithmetic, sub(a, b), result_of<SubOp, A, B>);
SHARDWISE_OPERATOR(*, NotArithmetic, NotArithmetic, mul(a, b), result_of<MulOp, A, B>);
SHARDWISE_OPERATOR(/, NotArithmetic, NotArithmetic, div(a, b), result_of<DivOp, A, B>);

SHARDWISE_OPERATOR(+, NotArithmetic, Arithmetic, add_number(a, static_cast<double>(b)),
                   result_of<AddNumberOp, A>);
SHARDWISE_OPERATOR(+, Arithmetic, NotArithmetic, add_number(b, static_cast<double>(a)),
                   result_of<AddNumberOp, B>);
SHARDWISE_OPERATOR(-, NotArithmetic, Arithmetic, add_number(a, -static_cast<double>(b)),
                   result_of<AddNumberOp, A>);
SHARDWISE_OPERATOR(-, Arithmetic, NotArithmetic, add_number(scale(b, -1), static_cast<double>(a)),
                   result_of<AddNumberOp, B>);
SHARDWISE_OPERATOR(*, NotArithmetic, Arithmetic, scale(a, static_cast<double>(b)), result_of<ScaleOp, A>);
SHARDWISE_OPERATOR(*, Arithmetic, NotArithmetic, scale(b, static_cast<double>(a)), result_of<ScaleOp, B>);
SHARDWISE_OPERATOR(/, NotArithmetic, Arithmetic, scale(a, 1 / static_cast<double>(b)), result_of<ScaleOp, A>);
SHARDWISE_OPERATOR(/, Arithmetic, NotArithmetic, scale(reciprocal(b), static_cast<double>(a)),
                   result_of<ActivationOp<kernel::Reciprocal>, B>);
#undef SHARDWISE_OPERATOR

namespace detail {

/// Of scalars; of a tensor and a number; of two tensors, which `std::max` compares.
template <class A, class B>
using NotCompared =
    WrittenOtherwise<rank_of<A> == 0 && rank_of<B> == 0 ? Hint::use_the_number_that_item_returns
                     : Arithmetic<A> || Arithmetic<B>
                         ? Hint::use_less_less_equal_greater_greater_equal_or_equal
                         : Hint::use_less_greater_or_equal_and_for_std_max_and_min_maximum_and_minimum>;
/// To a number; to a parameter; to a tensor.
template <class A, class>
using NotAssigned =
    WrittenOtherwise<Arithmetic<A>           ? Hint::use_the_number_that_item_returns
                     : is_parameter_alone<A> ? Hint::let_an_optimizer_such_as_SGD_change_the_parameter
                                             : Hint::write_x_equals_x_plus_y>;

}  // namespace detail

// NOLINTBEGIN(bugprone-macro-parentheses): types
#define SHARDWISE_NO_OPERATOR(op, Left, Why) \
  template <class A, class B>                \
    requires(Operand<A> || Operand<B>)       \
  detail::Why<A, B>                          \
  operator op(Left&, const B&)
SHARDWISE_NO_OPERATOR(+=, A, NotAssigned);
SHARDWISE_NO_OPERATOR(-=, A, NotAssigned);
SHARDWISE_NO_OPERATOR(*=, A, NotAssigned);
SHARDWISE_NO_OPERATOR(/=, A, NotAssigned);
SHARDWISE_NO_OPERATOR(<, const A, NotCompared);
SHARDWISE_NO_OPERATOR(<=, const A, NotCompared);
SHARDWISE_NO_OPERATOR(>, const A, NotCompared);
SHARDWISE_NO_OPERATOR(>=, const A, NotCompared);
SHARDWISE_NO_OPERATOR(==, const A, NotCompared);
SHARDWISE_NO_OPERATOR(!=, const A, NotCompared);
#undef SHARDWISE_NO_OPERATOR
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace shardwise
