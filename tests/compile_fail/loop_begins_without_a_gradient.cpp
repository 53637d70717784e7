// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// Whether a gradient is wanted is a part of the type of a `Var`: data has none, what a layer makes of it has one. So a loop
/// that begins with data begins a new variable, or is `sequential`.
// expect: LayoutError<Reason::value_without_a_gradient_becomes_one_with, Got<Tensor<float, 2, Mesh<tp>, Replicate>>, Cure<Hint::use_sequential_or_a_new_name>>

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
