// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A bias by the load of one rank
// about: mixtures of experts
// thread: pytorch/torchtitan #4154
// there: The counts of an expert's tokens were not added up over the ranks of tensor parallelism, which have different tokens. So each rank moved the bias of the experts by its own tokens.
// here: does not compile
/// The load is the gradient of the bias. A bias that is used with sharded tokens is `Reduced`, so its gradient is a
/// pending sum over the ranks.
// expect: LayoutError<Reason::replicated_operand_meets_blocks_so_its_gradient_would_be_pending, On<tp>, Expected<Shard<0>, Reduced>, Got<Shard<0>, Replicate>, Cure<Hint::redistribute_to_Reduced_which_is_free>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/module/parameter.hpp>
#include <shardwise/nn/routing.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;
using Logits = Tensor<double, 2, Mesh<tp>, Shard<0>>;  // [tokens, experts]

#ifdef SHOULD_FAIL
using Bias = Parameter<Tensor<double, 1, Mesh<tp>, Replicate>, packed(Sharding{.counted = true})>;

auto routing(const Var<Logits>& logits, const Bias& bias) {
  return route(logits, {.k = 1, .normalized = false}, bias);
}
#else
using Bias = Parameter<Tensor<double, 1, Mesh<tp>, Reduced>, packed(Sharding{.counted = true})>;

auto routing(const Var<Logits>& logits, const Bias& bias) {
  return route(logits, {.k = 1, .normalized = false}, bias);
}

TEST_CASE("twelve tokens, of which expert 2 has all") {
  const Mesh<tp> mesh(world(), {any});
  Eigen::MatrixXd logits = Eigen::MatrixXd::Zero(12, 4);
  logits.col(2).setOnes();
  Bias bias(mesh, {4}, Init::constant(0));
  bias.initialize(1);
  Tape tape;
  const auto chosen = routing(tape.input(distribute<Shard<0>>(mesh, logits)), bias);
  tape.backward(redistribute<tp, Replicate>(sum(chosen.weights)));
  CHECK(full_tensor(redistribute<tp, Replicate>(bias.gradient())) == Eigen::Vector4d(-12, -12, 36, -12));
}
#endif
