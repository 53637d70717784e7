// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `swiglu`: silu(gate) · up, element by element (Shazeer, "GLU variants improve transformer", 2020). Any
/// placement but `Partial`; both operands have the same layout.
///
/// ```
/// y = linear(swiglu(linear(x, w_gate), linear(x, w_up)), w_down);
/// ```

#include <shardwise/kernel/activations.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

struct SwigluOp {
  static constexpr const char* name = "swiglu";
  static constexpr Signature signature = Signature::of("..., ... -> ...");
  static constexpr Saved saved{.inputs = 0b11};
  static constexpr bool recomputed = true;  // the widest tensor of a layer, from operands kept anyway
  static constexpr int flops_each = 2;      // the activation, the product

  static void forward(auto y, void*, auto gate, auto up) {
    kernel::swiglu(y.elements(), gate.data, up.data, y.data);
  }
  static void pull_back(auto dy, auto, const void*, auto gate, auto up) {
    kernel::swiglu_backward(dy.elements(), gate.data, up.data, dy.data, gate.gradient, up.gradient);
  }
};

/// gate · sigmoid(gate) · up. Throws `std::invalid_argument` if the shapes differ.
SHARDWISE_FUNCTION(swiglu, SwigluOp);

}  // namespace shardwise
