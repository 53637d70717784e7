// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Elementwise arithmetic: `mul` and `sub` of two tensors of one shape, and `scale` by a number. `mul` is
/// linear in each factor, so one may be a pending sum beside a `Reduced` one, but not both; `sub` is linear
/// in both together, as `add` is; `scale` lets a pending sum pass.

#include <shardwise/kernel/arithmetic.hpp>
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

struct MulOp {
  static constexpr const char* name = "mul";
  static constexpr Signature signature = Signature::of("..., ... -> ...").linear_in_each();
  static constexpr Saved saved{.inputs = 0b11};

  static void forward(auto y, void*, auto a, auto b) {
    kernel::multiply(y.elements(), a.data, b.data, y.data);
  }
  static void pull_back(auto dy, auto, const void*, auto a, auto b) {
    if (a.gradient) kernel::multiply(dy.elements(), dy.data, b.data, a.gradient);
    if (b.gradient) kernel::multiply(dy.elements(), dy.data, a.data, b.gradient);
  }
};

struct SubOp {
  static constexpr const char* name = "sub";
  static constexpr Signature signature = Signature::of("..., ... -> ...").linear_jointly();
  static constexpr Saved saved{};
  static constexpr bool accumulates = true;
  static constexpr unsigned passes = 0b01;
  static constexpr int gradient_flops_each = 1;

  static void forward(auto y, void*, auto a, auto b) {
    kernel::subtract(y.elements(), a.data, b.data, y.data);
  }
  static void pull_back(auto dy, auto, const void*, auto a, auto b) {
    detail::give_scaled(dy, 1, a);
    detail::give_scaled(dy, -1, b);
  }
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

/// a · b, element by element. Throws `std::invalid_argument` if the shapes differ.
template <Operand A, Operand B, WellFormed Result = result_of<MulOp, A, B>>
constexpr auto mul(const A& a, const B& b) {
  return apply(MulOp{}, a, b);
}
template <class A, class B, IllFormed Why = result_of<MulOp, A, B>>
Why mul(const A&, const B&);  // see Why

/// a - b. Throws `std::invalid_argument` if the shapes differ.
template <Operand A, Operand B, WellFormed Result = result_of<SubOp, A, B>>
constexpr auto sub(const A& a, const B& b) {
  return apply(SubOp{}, a, b);
}
template <class A, class B, IllFormed Why = result_of<SubOp, A, B>>
Why sub(const A&, const B&);  // see Why

/// factor · x.
template <Operand X, class Result = result_of<ScaleOp, X>>
constexpr auto scale(const X& x, double factor) {
  return apply(ScaleOp{factor}, x);
}
template <Operand X, IllFormed Why = result_of<ScaleOp, X>>
Why scale(const X&, double);  // see Why

}  // namespace shardwise
