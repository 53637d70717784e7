// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `add`: the sum of two tensors of one shape, or of a tensor and a bias in every row. It is linear in both
/// together: pending sums add up to a pending sum, but a pending sum and a finished value do not compile,
/// because every rank would add the value once more.
///
/// ```
/// y = add(x, branch);   // the residual connection; backward hands one gradient to both, without a copy
/// y = add(x, bias);     // y[r…, c…] = x[r…, c…] + bias[c…]
/// ```
/// Along one axis two tensors of one shape have one layout, and so has the sum. A bias has the layout of x in the
/// dimensions that both have, and is `Reduced` where x is sharded in another one.

#include <shardwise/kernel/reduce.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

struct AddOp {
  static constexpr const char* name = "add";
  static constexpr Signature signature = detail::with_rows.linear_jointly();
  static constexpr Saved saved{};
  static constexpr bool accumulates = true;
  static constexpr unsigned passes = 0b11;  // of a bias the gradient has another shape

  static constexpr std::int64_t gradient_flops(unsigned, const auto& dy, const auto&, const auto& b) {
    return std::is_same_v<decltype(dy.size), decltype(b.size)> ? 0 : dy.elements();
  }
  static void forward(auto y, void*, auto a, auto b) {
    kernel::add(b.elements(), a.data, b.data, y.data, detail::rows_of(a, b));
  }
  static void pull_back(auto dy, auto, const void*, auto a, auto b) {
    if (a.gradient && a.accumulate) kernel::accumulate(dy.elements(), dy.data, a.gradient);
    if (a.gradient && !a.accumulate) kernel::copy(dy.elements(), dy.data, a.gradient);
    if (b.gradient) kernel::sum_rows(detail::rows_of(a, b), b.elements(), dy.data, b.gradient, b.accumulate);
  }
};

/// a: [r…, c…], b: [r…, c…] or [c…]; the result is [r…, c…]. Throws `std::invalid_argument` if an extent
/// differs.
SHARDWISE_FUNCTION(add, AddOp);

SHARDWISE_COMPILE_OPERATION(AddOp, 2, 2, 2)
SHARDWISE_COMPILE_OPERATION(AddOp, 3, 3, 3)

}  // namespace shardwise
