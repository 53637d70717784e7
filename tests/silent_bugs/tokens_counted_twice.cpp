// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: Tokens that are counted twice
// about: mixtures of experts
// thread: pytorch/torchtitan #1593
// thread: pytorch/torchtitan #4148
// there: A layer counted the tokens of each expert in its forward pass, for a bias that evens their load. With recomputation it counted them twice, and the tokens of an evaluation entered the next step of training.
// here: cannot be written
/// A mixture counts nothing while it runs. The load is the gradient of the bias: a backward pass computes it, once.

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/mixture_of_experts.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/train/recompute.hpp>
#include <shardwise/train/sgd.hpp>

using namespace shardwise;

TEST_CASE("six tokens of the first of two experts, in a layer that is computed again") {
  const Mesh<ep> mesh(world(), {any});
  MixtureOfExperts<Mesh<ep>, ExpertParallel<ep>, double> mixture(
      mesh, 1, {.experts = 2, .hidden = 3, .routing = {.k = 1, .normalized = false}, .bias = true});
  initialize(mixture, 1);
  using Router = typename decltype(mixture.router)::Stored;
  mixture.router.assign(
      Router(redistribute<ep, Reduced>(distribute<Replicate>(mesh, Eigen::MatrixXd(Eigen::Vector2d(1, 0))))));
  mixture(full<double, Shard<0>>(mesh, {6, 1}, 1.));  // an evaluation
  Tape tape;
  const auto x = tape.input(full<double, Shard<0>>(mesh, {6, 1}, 1.));
  tape.backward(redistribute<ep, Replicate>(sum(recompute(mixture, x))));
  reduce_gradients(mixture);
  CHECK(full_tensor(mixture.bias->finished_gradient()) == Eigen::Vector2d(6, -6));  // 2 · 6 - 6, 2 · 0 - 6
  SGD sgd;
  sgd.set_bias_rate(0.5);
  sgd.step(mixture);
  CHECK(full_tensor(mixture.bias->value()) == Eigen::Vector2d(-0.5, 0.5));
}
