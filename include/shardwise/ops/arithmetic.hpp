// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Elementwise arithmetic: `sub`, `mul`, `div`, `minimum` and `maximum` of two tensors; `scale` and `add_number`, of a
/// tensor and a number. Of two tensors, b has the shape of a or its last dimensions, as for `add`; its gradient is then
/// the sum over the rows.
///
/// ```
/// y = mul(x, gain);                  // y[r…, c…] = x[r…, c…] · gain[c…]
/// y = div(x, total);                 // a scalar is for all elements
/// y = maximum(x, floor);
/// ```
/// `mul` is linear in each factor, so one may be a pending sum beside a `Reduced` one, but not both; `sub` is linear
/// in both together, as `add` is; `scale` lets a pending sum pass. The others take no pending sums.

#include <shardwise/kernel/reduce.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

namespace detail {

/// The gradient of `x`, if it is wanted, is factor · dy.
template <class T, int Rank>
void give_scaled(const View<const T, Rank>& dy, kernel::compute_t<T> factor, const Input<T, Rank>& x) {
  if (!x.gradient) return;
  if (x.accumulate) {
    kernel::accumulate_scaled(dy.elements(), factor, dy.data, x.gradient);
  } else {
    kernel::scale(dy.elements(), factor, dy.data, x.gradient);
  }
}

}  // namespace detail

struct SubOp {
  static constexpr const char* name = "sub";
  static constexpr Signature signature = detail::with_rows.linear_jointly();
  static constexpr Saved saved{};
  static constexpr bool accumulates = true;
  static constexpr unsigned passes = 0b01;
  static constexpr int gradient_flops_each = 1;

  static void forward(auto y, void*, auto a, auto b) {
    kernel::subtract(b.elements(), a.data, b.data, y.data, detail::rows_of(a, b));
  }
  static void pull_back(auto dy, auto, const void*, auto a, auto b) {
    detail::give_scaled(dy, 1, a);
    if constexpr (std::is_same_v<decltype(a), decltype(b)>) {
      detail::give_scaled(dy, -1, b);
    } else if (b.gradient) {
      kernel::sum_rows(detail::rows_of(a, b), b.elements(), dy.data, b.gradient, b.accumulate, -1);
    }
  }
};

struct MulOp {
  static constexpr const char* name = "mul";
  static constexpr Signature signature = detail::with_rows.linear_in_each();
  static constexpr Saved saved{.inputs = 0b11};
  static constexpr bool reads_crosswise = true;

  static void forward(auto y, void*, auto a, auto b) {
    kernel::multiply(b.elements(), a.data, b.data, y.data, detail::rows_of(a, b));
  }
  static void pull_back(auto dy, auto, const void*, auto a, auto b) {
    const Index rows = detail::rows_of(a, b), n = b.elements();
    if (a.gradient) kernel::multiply(n, dy.data, b.data, a.gradient, rows);
    if constexpr (std::is_same_v<decltype(a), decltype(b)>) {
      if (b.gradient) kernel::multiply(n, dy.data, a.data, b.gradient);
    } else if (b.gradient) {
      kernel::sum_terms(rows, n, b.gradient, [x = a.data, d = dy.data](Index at, Index) {
        return kernel::widen(d[at]) * kernel::widen(x[at]);
      });
    }
  }
};

/// `F`: one of the formulas of kernel/arithmetic.hpp.
template <class F>
struct CombineOp {
  static constexpr Signature signature = detail::with_rows;
  static constexpr Saved saved{.inputs = 0b11};

  static void forward(auto y, void*, auto a, auto b) {
    kernel::map_rows(
        detail::rows_of(a, b), b.elements(), y.data, [](auto p, auto q) { return F::value(p, q); }, b.data,
        a.data);
  }
  static void pull_back(auto dy, auto, const void*, auto a, auto b) {
    const Index rows = detail::rows_of(a, b), n = b.elements();
    if (a.gradient) {
      kernel::map_rows(
          rows, n, a.gradient, [](auto d, auto p, auto q) { return d * F::slope_a(p, q); }, b.data, dy.data,
          a.data);
    }
    if constexpr (std::is_same_v<decltype(a), decltype(b)>) {
      if (!b.gradient) return;
      kernel::map(
          n, b.gradient, [](auto d, auto p, auto q) { return d * F::slope_b(p, q); }, dy.data, a.data,
          b.data);
    } else if (b.gradient) {
      kernel::sum_terms(rows, n, b.gradient, [x = a.data, row = b.data, d = dy.data](Index at, Index c) {
        return kernel::widen(d[at]) * F::slope_b(kernel::widen(x[at]), kernel::widen(row[c]));
      });
    }
  }
};
struct DivOp : CombineOp<kernel::Quotient> {
  static constexpr const char* name = "div";
};
struct MinimumOp : CombineOp<kernel::Extremum<std::less<>>> {
  static constexpr const char* name = "minimum";
};
struct MaximumOp : CombineOp<kernel::Extremum<std::greater<>>> {
  static constexpr const char* name = "maximum";
};

struct ScaleOp {
  double factor;

  static constexpr Signature signature = Signature::of("... -> ...").linear_in_each();
  static constexpr Saved saved{};
  static constexpr bool accumulates = true;

  template <class T, int Rank>
  void forward(View<T, Rank> y, void*, View<const T, Rank> x) const {
    kernel::scale(y.elements(), static_cast<kernel::compute_t<T>>(factor), x.data, y.data);
  }
  template <class T, int Rank>
  void pull_back(View<const T, Rank> dy, View<const T, Rank>, const void*, Input<T, Rank> x) const {
    detail::give_scaled(dy, static_cast<kernel::compute_t<T>>(factor), x);
  }
};

struct AddNumberOp {
  double number;

  static constexpr Signature signature = Signature::of("... -> ...");
  static constexpr Saved saved{};
  static constexpr bool accumulates = true;
  static constexpr unsigned passes = 0b1;
  static constexpr int gradient_flops_each = 0;

  template <class T, int Rank>
  void forward(View<T, Rank> y, void*, View<const T, Rank> x) const {
    using C = kernel::compute_t<T>;
    const C term = static_cast<C>(number);
    kernel::map(
        y.elements(), y.data, [term](C value) { return value + term; }, x.data);
  }
  static void pull_back(auto dy, auto, const void*, auto x) { detail::give_scaled(dy, 1, x); }
};

/// a - b. In this and the functions below, a: [r…, c…], b: [r…, c…] or [c…]; the result is [r…, c…]. They throw
/// `std::invalid_argument` if an extent differs.
SHARDWISE_FUNCTION(sub, SubOp);

/// a · b, element by element.
SHARDWISE_FUNCTION(mul, MulOp);

/// a / b, element by element.
SHARDWISE_FUNCTION(div, DivOp);

/// The smaller one of a and b, element by element; NaN if one is NaN. Backward, the smaller one gets the gradient, and
/// each of two equal ones half of it.
SHARDWISE_FUNCTION(minimum, MinimumOp);

/// The larger one, in the same way.
SHARDWISE_FUNCTION(maximum, MaximumOp);

/// factor · x.
template <Operand X, class Result = result_of<ScaleOp, X>>
constexpr auto scale(const X& x, double factor) {
  return apply(ScaleOp{factor}, x);
}
template <Operand X, IllFormed Why = result_of<ScaleOp, X>>
Why scale(const X&, double);  // see Why

/// x + number, at each element. Not of a pending sum: each rank would add the number to its own term.
template <Operand X, class Result = result_of<AddNumberOp, X>>
constexpr auto add_number(const X& x, double number) {
  return apply(AddNumberOp{number}, x);
}
template <Operand X, IllFormed Why = result_of<AddNumberOp, X>>
Why add_number(const X&, double);  // see Why

SHARDWISE_COMPILE_OPERATION(SubOp, 2, 2, 2)
SHARDWISE_COMPILE_OPERATION(MulOp, 2, 2, 2)
SHARDWISE_COMPILE_OPERATION(MulOp, 3, 3, 3)

}  // namespace shardwise
