// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A cache that takes one call for another
// thread: pytorch/pytorch #147180
// thread: pytorch/pytorch #134050
// there: A table cached the effect of a call on layouts, and its key lacked a part of the call. It lacked the factor of a pending sum, so that -5 x was 2 x, or the need for gradients, so that they were wrong.
// here: cannot be written
/// The compiler finds layouts, once for each type of call, and the type of an
/// operand says whether it has a gradient. The running program looks nothing up.

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/autograd/tape.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/reduction.hpp>

using namespace shardwise;

TEST_CASE("two calls of one type have their own results, and gradients if they are wanted") {
  const Mesh<tp> mesh(world(), {any});
  const auto x = from_local<Partial<>>(mesh, Eigen::VectorXd::Constant(3, mesh.rank() == 0 ? 1. : 0.));
  Tape tape;
  const auto constant = scale(tape.constant(x), -5);
  const auto input = tape.input(x);
  const auto y = scale(input, 2);
  CHECK(full_tensor(constant.value()).isApproxToConstant(-5));
  CHECK(full_tensor(y.value()).isApproxToConstant(2));
  tape.backward(redistribute<tp, Replicate>(sum(y)));
  CHECK(full_tensor(input.gradient()).isApproxToConstant(2));
}
