// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// y = silu(gate) · up, the gated activation of Shazeer, "GLU variants improve transformer", 2020.

#include <shardwise/kernel/element.hpp>
#include <shardwise/kernel/elementary.hpp>

namespace shardwise::kernel {

/// y may be gate or up.
template <class T>
void swiglu(Index n, const T* gate, const T* up, T* y) {
  map(
      n, y, [](compute_t<T> g, compute_t<T> u) { return g * sigmoid(g) * u; }, gate, up);
}

/// With s = sigmoid(gate): dgate = dy · up · s · (1 + gate · (1 - s)), dup = dy · gate · s. Either may be
/// null: not wanted.
template <class T>
void swiglu_backward(Index n, const T* gate, const T* up, const T* dy, T* dgate, T* dup) {
  using C = compute_t<T>;
  const auto gate_gradient = [](C g, C s, C u, C d) { return d * u * s * (1 + g * (1 - s)); };
  if (dgate && dup) {
    SHARDWISE_INDEPENDENT
    for (Index i = 0; i < n; ++i) {
      const C g = widen(gate[i]), u = widen(up[i]), d = widen(dy[i]), s = sigmoid(g);
      dgate[i] = narrow<T>(gate_gradient(g, s, u, d));
      dup[i] = narrow<T>(d * g * s);
    }
  } else if (dgate) {
    map(
        n, dgate, [=](C g, C u, C d) { return gate_gradient(g, sigmoid(g), u, d); }, gate, up, dy);
  } else if (dup) {
    swiglu(n, gate, dy, dup);
  }
}

}  // namespace shardwise::kernel
