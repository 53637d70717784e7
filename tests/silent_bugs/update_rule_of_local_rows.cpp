// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: An update rule chosen by a rank's part of a matrix
// thread: NVIDIA/Megatron-LM #7117
// there: An optimizer chose between two rules by the number of rows of a matrix. It counted the rows that a rank held, so a sharded matrix was updated by another rule than the whole one.
// here: cannot be written
/// `Muon` gives each whole matrix to one rank. Its scale depends on the extents of the tensor.

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/tensor/factories.hpp>
#include <shardwise/train/muon.hpp>

using namespace shardwise;

/// The weight after a step. It has 8 rows, and a rank holds some of them.
auto after_a_step(const Mesh<tp>& mesh) {
  Linear<Mesh<tp>, ColwiseParallel<tp>, double, 1, 1, false> layer(mesh, 3, 8);
  initialize(layer, 1);
  Tape tape;
  const auto y = layer(tape.constant(full<double, Replicate>(mesh, {2, 3}, 1.)));
  tape.backward(redistribute<Replicate>(sum_of_squares(y)));
  Muon muon({.rate = 0.1});
  muon.step(layer);
  return full_tensor(layer.weight.value());
}

TEST_CASE("the update of a sharded matrix is that of the whole one") {
  const auto sharded = after_a_step(Mesh<tp>(world(), {any})), whole = after_a_step(Mesh<tp>(self(), {1}));
  CHECK((sharded - whole).norm() <= 1e-12);
}
