// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A reduction into a copy, or into an input that is still needed
// thread: NovaSky-AI/SkyRL #1886
// thread: NVIDIA/Megatron-LM #7452 (finding 10, mended by #7481)
// there: A reduction works in place, but on a copy if its operand is not contiguous. One program used the unreduced gradient, and in another the sum overwrote the local counts.
// here: cannot be written
/// A tensor does not change. `redistribute` returns another tensor, of another type.

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/autograd/tape.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/linear.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;

TEST_CASE("the sum is there, and the terms still are") {
  const Mesh<tp> mesh(world(), {any});
  const auto counts = from_local<Partial<>>(mesh, Eigen::VectorXd::Constant(3, 2));
  const auto sums = redistribute<tp, Replicate>(counts);
  CHECK(full_tensor(sums).isApproxToConstant(2 * mesh.size()));
  CHECK(full_tensor(counts).isApproxToConstant(2 * mesh.size()));  // and not the sum of sums
}

TEST_CASE("the gradient of a head's input is the sum over all classes") {
  const Mesh<tp> mesh(world(), {any});
  Tape tape;
  const auto x = tape.input(full<double, Replicate>(mesh, {2, 3}, 1.));
  const auto head = full<double, Shard<0>>(mesh, {12, 3}, 0.5);
  const auto logits = linear(redistribute<tp, Reduced>(x), tape.constant(head));
  tape.backward(redistribute<tp, Replicate>(sum(logits)));
  CHECK(full_tensor(x.gradient()).isApproxToConstant(12 * 0.5));
}
