// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: Micro-batches that are synchronised otherwise than was meant
// thread: karpathy/build-nanogpt #30
// thread: modelscope/FunASR #3472
// there: A switch says before which backward pass gradients are synchronised. It was set too late, or before the wrong pass: 4 micro-batches trained another model than 1, and two ranks had gradients of 4.0 and 7.0 instead of 5.5.
// here: the plan differs
/// `.last` decides when gradients are reduced, and does not change them. If a program
/// sets it too often, it reduces the same gradients 4 times, which a plan counts. If
/// it never sets it, the optimizer finds pending gradients and reduces them.
// expect: static(_assert| assertion) failed

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/train/reduce_gradients.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
constexpr bool is_last(int, int) { return true; }
#else
constexpr bool is_last(int batch, int batches) { return batch + 1 == batches; }
#endif

constexpr void learn(const auto& mesh, auto& layer, int batches) {
  for (int i = 0; i < batches; ++i) {
    Tape tape;
    const auto y = layer(tape.constant(full<float, Shard<0>>(mesh, {24 / batches, 2}, 1.F)));
    backward_and_reduce(redistribute<dp, Replicate>(sum(y)), layer, {.last = is_last(i, batches)});
  }
}

#ifndef SHOULD_FAIL
TEST_CASE("4 micro-batches have the gradient of 1") {
  const Mesh<dp> mesh(world(), {any});
  for (const int batches : {1, 4}) {
    Linear<Mesh<dp>, NoParallel> layer(mesh, 2, 1);
    initialize(layer, 1);
    learn(mesh, layer, batches);
    CHECK(full_tensor(layer.weight.finished_gradient()).isApproxToConstant(24));
  }
}
#endif

constexpr auto planned = trace<Mesh<dp>>({8}, [](const auto& mesh) {
  Linear<Mesh<dp>, NoParallel> layer(mesh, 2, 1);
  learn(mesh, layer, 4);
});
constexpr auto reductions = planned.count(Collective::all_reduce);
static_assert(reductions == 1 + 4, "that of the gradients, and one for the loss of each micro-batch");
