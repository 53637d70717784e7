// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// The block is not kept, so its data would be null in the backward pass.
// expect: error: .*NotNamedInSaved

#include <shardwise/shardwise.hpp>

using namespace shardwise;

struct SquareOp {
  static constexpr Signature signature = Signature::of("... -> ...");
#ifdef SHOULD_FAIL
  static constexpr Saved saved{};
#else
  static constexpr Saved saved{.inputs = 0b1};
#endif
  static void forward(auto y, void*, auto x) {
    for (Index i = 0; i < y.elements(); ++i) y.data[i] = x.data[i] * x.data[i];
  }
  static void pull_back(auto dy, auto, const void*, auto x) {
    for (Index i = 0; i < dy.elements(); ++i) x.gradient[i] = 2 * dy.data[i] * x.data[i];
  }
};

auto square(const Var<Tensor<float, 1, Mesh<tp>, Replicate>>& x) {
  return apply(SquareOp{}, x);
}
