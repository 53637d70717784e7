// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `where`: each element from one of two tensors, or from a tensor or a number. The mask holds integers, as a
/// comparison gives them: 0 is false, all else is true.
///
/// ```
/// y = where(less(x, limit), x, scale(x, 0.1));
/// y = where(mask, scores, -1e9);   // PyTorch's masked_fill, of what the mask is not
/// ```
/// The gradient goes to the element that was taken. The operands have one shape and one layout; the mask may be
/// `Replicate` where they are `Reduced`. Of two tensors it is linear in both together, as `add` is: both may be pending
/// sums beside a mask that is whole.

#include <shardwise/kernel/arithmetic.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

struct WhereOp {
  static constexpr const char* name = "where";
  static constexpr Signature signature =
      Signature::of("..., ..., ... -> ...").without_gradient(0).linear_jointly();
  static constexpr Saved saved{.inputs = 0b1};

  static void forward(auto y, void*, auto mask, auto a, auto b) {
    kernel::map(
        y.elements(), y.data, [](auto m, auto p, auto q) { return m ? p : q; }, mask.data, a.data, b.data);
  }
  static void pull_back(auto dy, auto, const void*, auto mask, auto a, auto b) {
    if (a.gradient) kernel::select(dy.elements(), mask.data, true, dy.data, a.gradient);
    if (b.gradient) kernel::select(dy.elements(), mask.data, false, dy.data, b.gradient);
  }
};

struct WhereNumberOp {
  double otherwise;

  static constexpr const char* name = "where";
  static constexpr Signature signature = Signature::of("..., ... -> ...").without_gradient(0);
  static constexpr Saved saved{.inputs = 0b1};

  void forward(auto y, void*, auto mask, auto a) const {
    kernel::select(y.elements(), mask.data, true, a.data, y.data, otherwise);
  }
  static void pull_back(auto dy, auto, const void*, auto mask, auto a) {
    kernel::select(dy.elements(), mask.data, true, dy.data, a.gradient);
  }
};

/// mask, a, b: [r…]; the result is [r…]: a where the mask is true, else b. Throws `std::invalid_argument` if an extent
/// differs.
template <Operand Mask, Operand A, Operand B, WellFormed Result = result_of<WhereOp, Mask, A, B>>
constexpr auto where(const Mask& mask, const A& a, const B& b) {
  return apply(WhereOp{}, mask, a, b);
}
template <class Mask, class A, class B, IllFormed Why = result_of<WhereOp, Mask, A, B>>
  requires(!detail::Arithmetic<B>)
Why where(const Mask&, const A&, const B&);  // see Why

/// The same with a number instead of b.
template <Operand Mask, Operand A, detail::Arithmetic B,
          WellFormed Result = result_of<WhereNumberOp, Mask, A>>
constexpr auto where(const Mask& mask, const A& a, B otherwise) {
  return apply(WhereNumberOp{static_cast<double>(otherwise)}, mask, a);
}
template <class Mask, class A, detail::Arithmetic B, IllFormed Why = result_of<WhereNumberOp, Mask, A>>
Why where(const Mask&, const A&, B);  // see Why

}  // namespace shardwise
