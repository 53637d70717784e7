// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A balance loss that depends on the mesh
// about: mixtures of experts
// thread: NVIDIA/Megatron-LM #3672
// thread: NVIDIA/Megatron-LM #5047
// there: The balance loss was multiplied by the tokens of a rank, and the gradient was divided by the tokens of all. So the weight of the loss depended on the sizes of tensor and context parallelism.
// here: cannot be written
/// `balance_loss` takes the shares and the mean probabilities of all tokens of the batch, wherever they are: the layout of
/// the logits is in their type. It takes no factor for a mesh. A loss of one rank's tokens is a pending sum or a `Shard`,
/// which does not add to a finished loss.

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/autograd/tape.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/routing.hpp>

using namespace shardwise;

/// The balance loss of 6 tokens and 3 experts, and its gradient, with the tokens in layout `P`.
template <class P>
std::pair<double, Eigen::MatrixXd> balance(const Mesh<tp>& mesh) {
  Eigen::MatrixXd values(6, 3);
  for (Index i = 0; i < 18; ++i) values(i / 3, i % 3) = std::cos(2. * static_cast<double>(i));
  Tape tape;
  const auto logits = tape.input(distribute<P>(mesh, values));
  const auto loss = balance_loss(route(logits, {.k = 2}));
  tape.backward(loss);
  return {item(loss), full_tensor(logits.gradient())};
}

TEST_CASE("the balance loss and its gradient are the same in every layout") {
  const Mesh<tp> mesh(world(), {any});
  const auto [loss, gradient] = balance<Replicate>(mesh);
  const auto [of_blocks, gradient_of_blocks] = balance<Shard<0>>(mesh);
  CHECK(of_blocks == Approx(loss).epsilon(1e-14));
  CHECK(gradient_of_blocks.isApprox(gradient, 1e-14));
}
