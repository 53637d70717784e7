// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: The factor of an adapter that all ranks have
// thread: modelscope/mcore-bridge #173
// thread: ISEEKYAN/Megatron-LM #131
// there: One of an adapter's two weights is the same on all ranks, which have different tokens. Its gradient, a term on each rank, was not summed. Each rank trained a copy of its own, and the copy of rank 0 was saved.
// here: does not compile
// expect: LayoutError<Reason::replicated_operand_meets_blocks_so_its_gradient_would_be_pending, On<tp>, Expected<Shard<0>, Reduced>, Got<Shard<0>, Replicate>, Cure<Hint::redistribute_to_Reduced_which_is_free>>

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/autograd/tape.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/linear.hpp>
#include <shardwise/ops/reduction.hpp>

using namespace shardwise;
using SomeTokens = Var<Tensor<double, 2, Mesh<tp>, Shard<0>>>;  // [tokens, features]
using Factor = Var<Tensor<double, 2, Mesh<tp>, Replicate>>;     // A [rank, features]

#ifdef SHOULD_FAIL
auto low(const SomeTokens& x, const Factor& a) { return linear(x, a); }
#else
auto low(const SomeTokens& x, const Factor& a) { return linear(x, redistribute<tp, Reduced>(a)); }

TEST_CASE("the gradient of a factor is the sum over all tokens") {
  const Mesh<tp> mesh(world(), {any});
  Tape tape;
  const auto x = tape.input(full<double, Shard<0>>(mesh, {12, 4}, 1.));
  const auto a = tape.input(full<double, Replicate>(mesh, {2, 4}, 1.));
  tape.backward(redistribute<tp, Replicate>(sum(low(x, a))));
  CHECK(full_tensor(a.gradient()).isApproxToConstant(12));  // and 6 on each of 2 ranks, unreduced
}
#endif
