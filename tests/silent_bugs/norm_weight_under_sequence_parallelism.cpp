// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: Norm weights under sequence parallelism
// thread: NVIDIA/Megatron-LM #1446
// thread: NVIDIA/TransformerEngine #441 (also #435)
// thread: EleutherAI/gpt-neox #1259
// thread: NVIDIA/apex #1686
// there: Each rank has some of the tokens, so it computes only a term of the gradient of a norm's weight. No code added the terms up, or it averaged them, and the copies of one weight drifted apart.
// here: does not compile
// tour: 2
/// `Replicate` promises that all ranks do the same with a value, and so have the same gradient. Here each rank
/// has other tokens. A weight that meets them must be `Reduced`: it has the same bytes, but its gradient is a
/// pending sum. The way back from there to `Replicate` is an all-reduce, which the program does not write. (A
/// module does this by itself: `RMSNorm<Mesh<tp>, SequenceParallel<tp, 0>>` has a `Reduced` weight.)
// expect: LayoutError<Reason::replicated_operand_meets_blocks_so_its_gradient_would_be_pending, On<tp>, Expected<Shard<0>, Reduced>, Got<Shard<0>, Replicate>, Cure<Hint::redistribute_to_Reduced_which_is_free>>

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/autograd/tape.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/rms_norm.hpp>

using namespace shardwise;
using Tokens = Var<Tensor<double, 2, Mesh<tp>, Shard<0>>>;  // [tokens, features]
using Weight = Var<Tensor<double, 1, Mesh<tp>, Replicate>>;

#ifdef SHOULD_FAIL
auto normalised(const Tokens& x, const Weight& weight) { return rms_norm(x, weight); }
#else
auto normalised(const Tokens& x, const Weight& weight) {
  return rms_norm(x, redistribute<tp, Reduced>(weight));
}

TEST_CASE("the gradient of a norm's weight is the sum over all tokens") {
  const Mesh<tp> mesh(world(), {any});
  Tape tape;
  const auto x = tape.input(full<double, Shard<0>>(mesh, {12, 4}, 3.));  // each is 1 when it is normalised
  const auto weight = tape.input(full<double, Replicate>(mesh, {4}, 1.));
  tape.backward(redistribute<tp, Replicate>(sum(normalised(x, weight))));
  CHECK(full_tensor(weight.gradient()).isApproxToConstant(12, 1e-5));  // and 6 on each of 2 ranks, unreduced
}
#endif
