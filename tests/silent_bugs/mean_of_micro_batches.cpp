// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: The mean of the means of micro-batches
// thread: huggingface/transformers #34191
// thread: huggingface/trl #2175
// thread: meta-pytorch/torchtune #1917
// thread: modelscope/ms-swift #10165
// thread: OpenNMT/OpenNMT-py #2209
// thread: pytorch/torchtitan #4167
// there: Each micro-batch divided its loss by its own number of tokens, and the results were averaged. Tokens in short micro-batches counted more, and the model depended on the division of the batch.
// here: not covered
// tour: 3
/// A micro-batch is a tensor of its own. No type knows that its mean is one of several that will be added up: this
/// program compiles, runs, and trains another model. The right loss divides the sum over all tokens by their number in
/// the whole step, which `load_batch` returns ([training](../learn/training.md#the-loop)). The ranks of one micro-batch
/// cannot make this mistake: see [A loss divided by the tokens of one rank](#a-loss-divided-by-the-tokens-of-one-rank).
/// The program computes the gradient of a head of two classes from two micro-batches, of 3 tokens and of 1.

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/autograd/tape.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/cross_entropy_loss.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/linear.hpp>

using namespace shardwise;

/// The gradient of a head of two classes, from two micro-batches, of 3 tokens and of 1.
double head_gradient(Reduction reduction, double factor) {
  const Mesh<dp> mesh(world(), {any});
  Tape tape;
  const auto head = tape.input(zeros<double, Replicate>(mesh, {2, 1}));
  const auto loss_of = [&](std::initializer_list<double> features) {
    const Shape<2> shape{static_cast<Index>(features.size()), 1};
    const auto x = tape.constant(distribute<Shard<0>>(mesh, shape, std::span<const double>(features)));
    const auto targets = full<std::int32_t, Shard<0>>(mesh, Shape<1>{shape[0]}, 1);
    const auto logits = linear(x, redistribute<dp, Reduced>(head));
    return scale(CrossEntropyLoss({.reduction = reduction})(logits, targets), factor);
  };
  tape.backward(add(loss_of({6, 6, 8}), loss_of({12})));
  return full_tensor(head.gradient())(0, 0);
}

TEST_CASE("each token counts once, if the sum is divided by the number of all") {
  CHECK(head_gradient(Reduction::mean, 1. / 2) == Approx(14. / 3));  // the mistake, which nothing reports
  CHECK(head_gradient(Reduction::sum, 1. / 4) == Approx(4));
}
