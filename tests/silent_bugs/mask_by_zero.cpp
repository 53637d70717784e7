// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A mask that is a factor of zero
// about: mixtures of experts
// thread: huggingface/transformers #48687 (mended by #48689)
// there: Slots of experts on other ranks had the weight 0, which hides them in the forward pass. In the backward pass the gradient of a weight is the value that it multiplies. So the router learned from slots that the rank had not routed.
// here: not covered
/// This mistake is not one of layout, and happens on one rank too: a product with 0 is right in the
/// forward pass, and its gradient is not 0. Remove the masked slots from the scores before the product.

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/autograd/tape.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;

TEST_CASE("the gradient of a masked score") {
  const Mesh<tp> mesh(world(), {any});
  const auto results = full<double, Shard<0>>(mesh, {4}, 3.);
  const auto mask = distribute<Shard<0>>(mesh, Eigen::Vector4d(1, 0, 0, 1));
  Tape tape, right;
  const auto weights = tape.input(mask);  // the mistake, which nothing reports: the mask is the weight
  tape.backward(redistribute<tp, Replicate>(sum(mul(weights, tape.constant(results)))));
  CHECK(full_tensor(weights.gradient()).isApproxToConstant(3));

  const auto scores = right.input(full<double, Shard<0>>(mesh, {4}, 1.));
  const auto masked = mul(scores, right.constant(mask));
  right.backward(redistribute<tp, Replicate>(sum(mul(masked, right.constant(results)))));
  CHECK(full_tensor(scores.gradient()).isApprox(Eigen::Vector4d(3, 0, 0, 3)));
}
