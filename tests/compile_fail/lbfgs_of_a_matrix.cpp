// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// The function returns the prediction, where it should return the loss.
// expect: LayoutError<Reason::loss_is_not_a_scalar, Got<

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/nn/mean_losses.hpp>
#include <shardwise/train/lbfgs.hpp>

using namespace shardwise;
using Layer = Linear<Mesh<dp>, NoParallel>;
using Rows = Tensor<float, 2, Mesh<dp>, Shard<0>>;

#ifdef SHOULD_FAIL
void step(Lbfgs& lbfgs, Layer& layer, const Rows& x) {
  lbfgs.step(layer, [&](Tape& tape) { return layer(tape.constant(x)); });
}
#else
void step(Lbfgs& lbfgs, Layer& layer, const Rows& x) {
  lbfgs.step(layer, [&](Tape& tape) { return mse_loss(layer(tape.constant(x)), tape.constant(x)); });
}
#endif
