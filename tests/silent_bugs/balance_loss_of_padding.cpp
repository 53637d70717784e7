// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A balance loss that counts padding
// about: mixtures of experts
// thread: huggingface/transformers #28505
// there: Padding went through the router like tokens. It counted as load, so the balance loss made the experts even for padding.
// here: not covered
/// A mask is data. A program can pass it to `balance_loss`, in any layout, but nothing reports a program that does not.

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/routing.hpp>

using namespace shardwise;

TEST_CASE("a mask of 1 and 0 takes padding out of the balance loss") {
  const Mesh<dp> mesh(world(), {any});
  Eigen::MatrixXd values = Eigen::MatrixXd::Zero(8, 2);
  values.col(0).head(4).setConstant(40);        // four tokens for each expert,
  values.col(1).segment(4, 2).setConstant(40);  // of which the last two are padding
  values.col(1).tail(2).setConstant(40);
  const auto routing = route(distribute<Shard<0>>(mesh, values), {.k = 1});
  Eigen::VectorXd counted = Eigen::VectorXd::Ones(8);
  counted.tail(2).setZero();
  CHECK(item(balance_loss(routing)) == Approx(1));  // the mistake, which nothing reports
  CHECK(item(balance_loss(routing, {}, distribute<Shard<0>>(mesh, counted))) == Approx(10. / 9));
}
