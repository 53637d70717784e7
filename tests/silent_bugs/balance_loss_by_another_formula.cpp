// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A balance loss by another formula
// about: mixtures of experts
// thread: huggingface/transformers #28255 (also #28021 and #28093)
// there: The share of an expert was computed from something else than the choices of the tokens, so the loss was not that of the paper, or did not change with the routing.
// here: numerics only
/// The loss of even routing is 1, or k if the program writes `uniform`. If all tokens choose the same k of E experts, with
/// all of the probability, it is E / k times as large.

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/routing.hpp>

using namespace shardwise;

TEST_CASE("even routing, and all tokens to two of four experts") {
  const Mesh<dp> mesh(world(), {any});
  Eigen::MatrixXd even = Eigen::MatrixXd::Zero(8, 4), uneven = even;
  for (Index t = 0; t < 8; ++t) {
    even(t, t % 4) = even(t, (t + 1) % 4) = 1;
    uneven(t, 0) = uneven(t, 1) = 99;
  }
  const auto of_even = route(distribute<Shard<0>>(mesh, even), {.k = 2});
  CHECK(item(balance_loss(of_even)) == Approx(1));
  CHECK(item(balance_loss(of_even, {.uniform = 2})) == Approx(2));
  CHECK(item(balance_loss(route(distribute<Shard<0>>(mesh, uneven), {.k = 2}))) == Approx(2));
}
