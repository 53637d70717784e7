// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: Out of the tape and back
// thread: pytorch/pytorch #172932
// there: A pending sum became each rank's own tensor and then a pending sum again. The forward pass did not change, but the gradient did.
// here: does not compile
/// `.local()` is the block of a value, here of rows, and `from_local` makes a
/// tensor without a past from it. (If another operand on the way to the loss has a
/// gradient, the mistake is [not noticed](#a-value-that-is-cut-off-from-the-loss).)
// expect: LayoutError<Reason::loss_depends_on_nothing_that_has_a_gradient, Got<Tensor<double, 0, Mesh<tp>, Replicate>>, Cure<Hint::put_its_inputs_on_the_tape_with_input_or_constant>>

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/autograd/tape.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;
using Rows = Var<Tensor<double, 1, Mesh<tp>, Shard<0>>>;

#ifdef SHOULD_FAIL
void learn(Tape& tape, const Rows& x) {
  auto y = from_local<Shard<0>>(x.mesh(), x.value().local());
  tape.backward(redistribute<tp, Replicate>(sum(y)));
}
#else
void learn(Tape& tape, const Rows& x) { tape.backward(redistribute<tp, Replicate>(sum(x))); }

TEST_CASE("rows and a pending sum have their gradients") {
  const Mesh<tp> mesh(world(), {any});
  Tape tape;
  const auto x = tape.input(distribute<Shard<0>>(mesh, Eigen::Vector2d(1, 2)));
  learn(tape, x);
  CHECK(full_tensor(x.gradient()).isApproxToConstant(1));

  Tape other;
  const auto pending = other.input(distribute<Partial<>>(mesh, Eigen::Vector2d(1, 2)));
  other.backward(redistribute<tp, Replicate>(sum(pending)));
  CHECK(full_tensor(pending.gradient()).isApproxToConstant(1));
}
#endif
