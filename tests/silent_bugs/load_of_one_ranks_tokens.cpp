// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A bias by the load of one rank
// about: mixtures of experts
// thread: pytorch/torchtitan #4154
// there: The counts of an expert's tokens were not added up over the ranks of tensor parallelism, which have different tokens. So each rank moved the bias of the experts by its own tokens.
// here: does not compile
/// `expert_load` adds up the tokens of all ranks.
// expect: LayoutError<Reason::pending_sum_meets_a_finished_value, On<tp>, Expected<Partial<>, Partial<>>, Got<Replicate, Partial<>>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/routing.hpp>

using namespace shardwise;
using Logits = Tensor<double, 2, Mesh<tp>, Shard<0>>;  // [tokens, experts]
using Bias = Tensor<double, 1, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
auto moved(const Bias& bias, const Logits& logits) {
  const auto load = sum<0>(sum<0>(one_hot<double>(route(logits, {.k = 1}).ids, 4)));
  return sub(bias, scale(load, 0.1));
}
#else
auto moved(const Bias& bias, const Logits& logits) {
  return sub(bias, scale(expert_load(route(logits, {.k = 1})), 0.1));
}

TEST_CASE("twelve tokens, of which expert 2 has all") {
  const Mesh<tp> mesh(world(), {any});
  Eigen::MatrixXd logits = Eigen::MatrixXd::Zero(12, 4);
  logits.col(2).setOnes();
  const auto bias = moved(full<double, Replicate>(mesh, {4}, 0.), distribute<Shard<0>>(mesh, logits));
  CHECK(full_tensor(bias).isApprox(Eigen::Vector4d(0, 0, -1.2, 0)));
}
#endif
