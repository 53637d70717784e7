// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: Frozen weights that train
// thread: NVIDIA-NeMo/Automodel #547
// there: A program froze weights and then made the model parallel. That made new parameters from them, and all were trained again.
// here: cannot be written
/// The type of a parameter contains its layout and whether it is frozen, from the beginning.

#include <shardwise/autograd/tape.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/train/sgd.hpp>

using namespace shardwise;

TEST_CASE("a frozen weight stays as it was, however it lies") {
  const Mesh<tp> mesh(world(), {any});
  Linear<Mesh<tp>, Styles<ColwiseParallel<tp>, Frozen>, double> first(mesh, 4, 8);
  Linear<Mesh<tp>, RowwiseParallel<tp>, double> second(mesh, 8, 4);
  initialize(first, 1);
  initialize(second, 2);
  const auto was = full_tensor(first.weight.value()), trained = full_tensor(second.weight.value());
  Tape tape;
  tape.backward(sum_of_squares(second(first(tape.constant(full<double, Replicate>(mesh, {3, 4}, 1.))))));
  SGD sgd({.rate = 0.1});
  sgd.step(second);
  CHECK(full_tensor(first.weight.value()) == was);
  CHECK_FALSE(full_tensor(second.weight.value()) == trained);
  CHECK(trained_parameter_count(first) == 0);
}
