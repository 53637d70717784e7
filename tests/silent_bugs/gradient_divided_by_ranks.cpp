// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A gradient divided by the number of ranks
// thread: pytorch/pytorch #115967
// there: The backward pass of a reduce-scatter divided the gradient by the number of ranks.
// here: cannot be written
/// The backward pass of a change of layout is a change of the gradient's layout, and no such change divides.

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
