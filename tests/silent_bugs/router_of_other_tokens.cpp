// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A router that sees other tokens on each rank
// about: mixtures of experts
// thread: NVIDIA/Megatron-LM #599
// there: Under sequence parallelism each rank routed its own tokens. No code added up the gradients of the router, so the ranks of one model had different routers, which no checkpoint for another program can hold.
// here: does not compile
// expect: LayoutError<Reason::replicated_operand_meets_blocks_so_its_gradient_would_be_pending, On<tp>, Expected<Shard<0>, Reduced>, Got<Shard<0>, Replicate>, Cure<Hint::redistribute_to_Reduced_which_is_free>>

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/autograd/tape.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/linear.hpp>
#include <shardwise/ops/reduction.hpp>

using namespace shardwise;
using Tokens = Var<Tensor<double, 2, Mesh<tp>, Shard<0>>>;
using Router = Var<Tensor<double, 2, Mesh<tp>, Replicate>>;  // [experts, features]

#ifdef SHOULD_FAIL
auto logits_of(const Tokens& x, const Router& router) { return linear(x, router); }
#else
auto logits_of(const Tokens& x, const Router& router) { return linear(x, redistribute<tp, Reduced>(router)); }

TEST_CASE("the gradient of a router is the sum over the tokens of all ranks") {
  const Mesh<tp> mesh(world(), {any});
  Tape tape;
  const auto router = tape.input(full<double, Replicate>(mesh, {4, 3}, 1.));
  const auto x = tape.input(full<double, Shard<0>>(mesh, {12, 3}, 0.5));
  tape.backward(redistribute<tp, Replicate>(sum(logits_of(x, router))));
  CHECK(full_tensor(router.gradient()).isApproxToConstant(6));
}
#endif
