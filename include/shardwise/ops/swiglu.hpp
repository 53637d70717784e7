// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Gated activations, element by element (Shazeer, "GLU variants improve transformer", 2020): `swiglu`, silu(gate) ·
/// up, and `geglu`, gelu_tanh(gate) · up. Any placement but `Partial`; both operands have the same layout.
///
/// ```
/// y = linear(swiglu(linear(x, w_gate), linear(x, w_up)), w_down);
/// ```

#include <shardwise/kernel/activations.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

namespace detail {

/// `F`: a formula of kernel/activations.hpp whose slope is a function of the input, such as `Silu`.
template <class F>
struct GatedOp {
  static constexpr Signature signature = Signature::of("..., ... -> ...");
  static constexpr Saved saved{.inputs = 0b11};
  static constexpr bool recomputed = true;  // the widest tensor of a layer, from operands kept anyway
  static constexpr int flops_each = 2;      // the activation, the product

  static void forward(auto y, void*, auto gate, auto up) {
    kernel::gated<F>(y.elements(), gate.data, up.data, y.data);
  }
  static void pull_back(auto dy, auto, const void*, auto gate, auto up) {
    kernel::gated_backward<F>(dy.elements(), gate.data, up.data, dy.data, gate.gradient, up.gradient);
  }
};

}  // namespace detail

struct SwigluOp : detail::GatedOp<kernel::Silu> {
  static constexpr const char* name = "swiglu";
};
struct GegluOp : detail::GatedOp<kernel::GeluTanh> {
  static constexpr const char* name = "geglu";
};

/// gate · sigmoid(gate) · up. Throws `std::invalid_argument` if the shapes differ.
SHARDWISE_FUNCTION(swiglu, SwigluOp);

/// gelu_tanh(gate) · up. Throws `std::invalid_argument` if the shapes differ.
SHARDWISE_FUNCTION(geglu, GegluOp);

}  // namespace shardwise
