// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A backward pass in two parts, and data parallelism
// thread: pytorch/pytorch #144530
// there: Zero-bubble schedules compute gradients of inputs and of weights apart, by other calls than the one that triggers the reduction of gradients. So the gradients were not reduced over data-parallel ranks.
// here: cannot be written
/// No call triggers a reduction. The gradient of a parameter is pending by its
/// type, whichever way it was computed, and the optimizer takes finished gradients.

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/train/sgd.hpp>

using namespace shardwise;

TEST_CASE("a step after a backward pass in two parts") {
  const Mesh<dp> mesh(world(), {any});
  Linear<Mesh<dp>, NoParallel> layer(mesh, 2, 1);
  initialize(layer, 1);
  const auto before = full_tensor(layer.weight.value());
  Tape tape;
  const auto y = layer(tape.constant(full<float, Shard<0>>(mesh, {12, 2}, 1.F)));
  tape.backward_inputs(redistribute<dp, Replicate>(sum(y)));
  tape.backward_parameters();
  SGD({.rate = 0.5}).step(layer);
  CHECK((before - full_tensor(layer.weight.value())).isApproxToConstant(0.5F * 12));
}
