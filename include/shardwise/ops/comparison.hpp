// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Elementwise comparisons of two tensors, or of a tensor and a number: `less`, `less_equal`, `greater`,
/// `greater_equal`, `equal` and `not_equal`. The result holds 1 where the comparison is true, and 0 elsewhere, as
/// `std::uint8_t`: the smallest type that is communicated and stored (a `std::vector<bool>` has no array of elements).
///
/// ```
/// mask = less(x, 0.0);        // also of a Var or a parameter, of floating-point numbers or integers
/// y = where(mask, 0.0 * x, x);
/// ```
/// A comparison has no gradient, so its result is a tensor off the tape, and `Reduced` operands are as good as
/// `Replicate` ones. Any placement but `Partial`. NaN is unequal to everything.

#include <shardwise/kernel/arithmetic.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

/// `F`: std::less<> or one like it.
template <class F>
struct CompareOp {
  using Element = std::uint8_t;
  static constexpr bool takes_integers = true;
  static constexpr const char* name = "comparison";
  static constexpr Signature signature = detail::with_rows.without_gradient(0).without_gradient(1);

  static void forward(auto y, void*, auto a, auto b) {
    kernel::map_rows(detail::rows_of(a, b), b.elements(), y.data, F(), b.data, a.data);
  }
};

template <class F>
struct CompareNumberOp {
  using Element = std::uint8_t;
  static constexpr bool takes_integers = true;
  double number;

  static constexpr Signature signature = Signature::of("... -> ...").without_gradient(0);

  template <class T, int Rank>
  void forward(View<std::uint8_t, Rank> y, void*, View<const T, Rank> x) const {
    using C = std::conditional_t<std::is_integral_v<T>, double, kernel::compute_t<T>>;
    const C right = static_cast<C>(number);
    kernel::map(
        y.elements(), y.data, [right](auto value) { return F()(static_cast<C>(value), right); }, x.data);
  }
};

namespace detail {

/// The operand `X` without its tape; other types as they are.
template <class X>
struct WithoutTape : TypeIs<X> {};
template <Operand X>
struct WithoutTape<X> : std::conditional<is_abstract<X>, Abstract<tensor_of<X>, false, false>, tensor_of<X>> {
};

template <class X>
constexpr decltype(auto) without_tape(const X& x) {
  if constexpr (is_abstract<X>) {
    return typename WithoutTape<X>::type();
  } else {
    return value_of(x);
  }
}

template <class F, class A, class B>
struct Compared {};
template <class F, class A, class B>
  requires((Operand<A> || Operand<B>)&&!Arithmetic<B>)
struct Compared<F, A, B>
    : TypeIs<result_of<CompareOp<F>, typename WithoutTape<A>::type, typename WithoutTape<B>::type>> {};
template <class F, Operand A, Arithmetic B>
struct Compared<F, A, B> : TypeIs<result_of<CompareNumberOp<F>, typename WithoutTape<A>::type>> {};

template <class F, Operand A, class B>
constexpr auto compare(const A& a, const B& b) {
  if constexpr (Arithmetic<B>) {
    return shardwise::apply(CompareNumberOp<F>{static_cast<double>(b)}, without_tape(a));
  } else {
    return shardwise::apply(CompareOp<F>(), without_tape(a), without_tape(b));
  }
}

}  // namespace detail

#define SHARDWISE_COMPARISON(name, F)                                                                \
  template <Operand A, class B, WellFormed Result = typename detail::Compared<std::F<>, A, B>::type> \
  constexpr auto name(const A& a, const B& b) {                                                      \
    return detail::compare<std::F<>>(a, b);                                                          \
  }                                                                                                  \
  template <class A, class B, IllFormed Why = typename detail::Compared<std::F<>, A, B>::type>       \
  Why name(const A&, const B&)

/// a < b. In this and the functions below, a: [r…, c…], and b: [r…, c…] or [c…] of the same element type, or a number,
/// which is converted to that type. (Integers are compared with a number as `double`s.) They throw
/// `std::invalid_argument` if an extent differs.
SHARDWISE_COMPARISON(less, less);

/// a ≤ b
SHARDWISE_COMPARISON(less_equal, less_equal);

/// a > b
SHARDWISE_COMPARISON(greater, greater);

/// a ≥ b
SHARDWISE_COMPARISON(greater_equal, greater_equal);

/// a = b
SHARDWISE_COMPARISON(equal, equal_to);

/// a ≠ b
SHARDWISE_COMPARISON(not_equal, not_equal_to);
#undef SHARDWISE_COMPARISON

}  // namespace shardwise
