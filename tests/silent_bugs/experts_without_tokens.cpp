// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: Experts without tokens
// about: mixtures of experts
// thread: NVIDIA-NeMo/Automodel #2995 (finding 3)
// thread: pytorch/pytorch #126616
// thread: pytorch/torchtitan #1166
// there: An expert without tokens was not computed, so it had no gradient. Its optimizer skipped the step and the weight decay on that rank alone; other ranks waited in a reduction for the gradient, or a kernel hung.
// here: cannot be written
/// All experts of a rank are one parameter, and one operation computes them. The gradient of an expert without tokens is 0.
/// What is communicated does not depend on the choices.

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/mixture_of_experts.hpp>
#include <shardwise/train/reduce_gradients.hpp>

using namespace shardwise;

TEST_CASE("all tokens to one expert, and none to those of other ranks") {
  const Mesh<ep> mesh(world(), {any});
  MixtureOfExperts<Mesh<ep>, ExpertParallel<ep>, double> mixture(
      mesh, 1, {.experts = 4, .hidden = 1, .routing = {.k = 1, .normalized = false}});
  initialize(mixture, 1);
  using Router = typename decltype(mixture.router)::Stored;
  mixture.router.assign(Router(
      redistribute<ep, Reduced>(distribute<Replicate>(mesh, Eigen::MatrixXd(Eigen::Vector4d(0, 9, 0, 0))))));
  Tape tape;
  const auto y = mixture(tape.constant(full<double, Shard<0>>(mesh, {5, 1}, 1.)));
  tape.backward(redistribute<ep, Replicate>(sum(y)));
  reduce_gradients(mixture);
  const auto gradient = full_tensor(sum<1>(sum<1>(mixture.down.finished_gradient())));
  for (Index e = 0; e < 4; ++e) CHECK((gradient(e) != 0) == (e == 1));
}
