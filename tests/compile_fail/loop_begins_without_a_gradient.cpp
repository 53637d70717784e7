// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// The type of a `Var` says whether it needs a gradient. Data does not need one, and the result of a
/// layer does. So a loop over layers that starts with data must use a new variable, or `sequential`.
// expect: LayoutError<Reason::cannot_assign_tracked_to_untracked, Got<Tensor<float, 2, Mesh<tp>, Replicate>>, Cure<Hint::use_sequential_or_a_new_variable>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Layer = Linear<Mesh<tp>, NoParallel>;
using X = Tensor<float, 2, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
auto forward(Tape& tape, const std::vector<Layer>& layers, const X& data) {
  auto x = tape.constant(data);
  for (const Layer& layer : layers) x = layer(x);
  return x;
}
#else
auto forward(Tape& tape, const std::vector<Layer>& layers, const X& data) {
  return sequential(tape.constant(data), layers);
}
#endif
