// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A loss divided by the tokens of one rank
// thread: NVIDIA/Megatron-LM #7452 (finding 9)
// thread: pytorch/torchtitan #1842 (mended by #2206)
// there: Each rank divided the sum over its tokens by its own number of counted tokens, and the gradients were averaged. Where the numbers differ, tokens have different weights: one token on two ranks had half of its gradient.
// here: cannot be written
/// A mean has no divisor as an argument: `mean` and `CrossEntropyLoss` count over the whole
/// tensor. (A program can still do it by hand, since a factor is a number, and numbers have no
/// layout: see [A number that differs between ranks](#a-number-that-differs-between-ranks).)

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/autograd/tape.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/cross_entropy_loss.hpp>
#include <shardwise/ops/linear.hpp>

using namespace shardwise;

TEST_CASE("every token that counts counts once") {
  const Mesh<dp> mesh(world(), {any});
  Tape tape;
  const double features[]{6, 6, 8, 0, 12, 0, 0, 0};  // on 2 ranks 3 tokens count on one, and 1 on the other
  const std::int32_t classes[]{1, 1, 1, -100, 1, -100, -100, -100};
  const auto x = tape.constant(distribute<Shard<0>>(mesh, Shape<2>{8, 1}, std::span<const double>(features)));
  const auto targets = distribute<Shard<0>>(mesh, Shape<1>{8}, std::span<const std::int32_t>(classes));
  const auto head = tape.input(zeros<double, Replicate>(mesh, {2, 1}));
  tape.backward(CrossEntropyLoss()(linear(x, redistribute<dp, Reduced>(head)), targets));
  CHECK(full_tensor(head.gradient())(0, 0) == Approx(4));  // the mean of the means of 2 ranks is 14/3
}
