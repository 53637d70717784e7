// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// `check_gradients` and `Lbfgs::step` evaluate a loss several times. So they take a function, which puts its data on
/// the tape that it is given.
// expect: LayoutError<Reason::loss_is_not_a_function_of_a_tape, Got<.*>, Cure<Hint::pass_a_function_that_takes_Tape_and_returns_the_loss>>

#include <shardwise/shardwise.hpp>
#include <shardwise/train/check_gradients.hpp>

using namespace shardwise;
using Rows = Tensor<double, 2, Mesh<dp>, Shard<0>>;
using Layer = Linear<Mesh<dp>, NoParallel, double>;

#ifdef SHOULD_FAIL
void check(Layer& layer, const Rows& x) {
  check_gradients(layer, [&] { return mse_loss(layer(x), x); });
}
#else
void check(Layer& layer, const Rows& x) {
  check_gradients(layer, [&](Tape& tape) { return mse_loss(layer(tape.constant(x)), tape.constant(x)); });
}
#endif
