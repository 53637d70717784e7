// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A gradient divided, or multiplied, by the number of ranks
// thread: pytorch/pytorch #115967
// thread: pytorch/pytorch #160285
// there: On the way back through a reduce-scatter the gradient was divided by the number of ranks; through expert parallelism it came out twice as large on two ranks.
// here: cannot be written
/// The way back of a change of layout is the change of the gradient's layout, and none of them divides.

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/autograd/tape.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;

TEST_CASE("back through a reduce-scatter") {
  const Mesh<tp> mesh(world(), {any});
  Tape tape;
  const auto x = tape.input(from_local<Partial<>>(mesh, Eigen::VectorXd::Ones(6)));
  const auto y = redistribute<tp, Shard<0>>(x);
  tape.backward(redistribute<tp, Replicate>(sum(y)));
  CHECK(full_tensor(y.value()).isApproxToConstant(mesh.size()));
  CHECK(full_tensor(x.gradient()).isApproxToConstant(1));
}
