// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A value that is cut off from the loss
// thread: NVIDIA-NeMo/Automodel #2995
// thread: modelscope/ms-swift #9947
// there: Values went through a collective that autograd does not know, and what had computed them got no gradient, or one rank's part of it.
// here: not covered
/// `redistribute` of a `Var` is on the tape. But `.value()` is there, and what is made of it is a constant. If nothing
/// that the loss depends on has a gradient, that does not compile; if something else has one, nobody is told.

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/autograd/tape.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/reduction.hpp>

using namespace shardwise;

TEST_CASE("what is gathered on the tape has a gradient") {
  const Mesh<tp> mesh(world(), {any});
  Tape tape;
  const auto scores = tape.input(full<double, Shard<0>>(mesh, {4}, 0.5));
  const auto results = tape.input(full<double, Replicate>(mesh, {4}, 3.));
  const auto cut_off = tape.constant(redistribute<tp, Replicate>(scores.value()));  // the mistake
  tape.backward(sum(mul(cut_off, results)));
  CHECK_FALSE(static_cast<bool>(scores.gradient()));
  Tape right;
  const auto kept = right.input(scores.value());
  right.backward(sum(mul(redistribute<tp, Replicate>(kept), right.constant(results.value()))));
  CHECK(full_tensor(kept.gradient()).isApproxToConstant(3));
}
