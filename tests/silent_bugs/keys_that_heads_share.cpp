// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: Keys and values that all heads share
// thread: bigcode-project/Megatron-LM #35 (also #11)
// thread: NVIDIA/Megatron-LM #1699
// there: Each rank has some of the heads, and all heads use the same keys. So the gradient of the keys is a term on each rank. It was not summed where it should have been, and a model ended with a loss of 3.74 instead of 2.64.
// here: does not compile
// expect: LayoutError<Reason::replicated_operand_meets_blocks_so_its_gradient_would_be_pending, On<tp>, Expected<Shard<2>, Reduced, Reduced>, Got<Shard<2>, Replicate, Replicate>, Cure<Hint::redistribute_to_Reduced_which_is_free>>

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/autograd/tape.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/attention.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;
template <class P>
using Heads = Var<Tensor<double, 4, Mesh<tp>, P>>;  // [batch, sequence, heads, features]

#ifdef SHOULD_FAIL
auto attend(const Heads<Shard<2>>& q, const Heads<Replicate>& k, const Heads<Replicate>& v) {
  return attention(q, k, v);
}
#else
auto attend(const Heads<Shard<2>>& q, const Heads<Replicate>& k, const Heads<Replicate>& v) {
  return attention(q, redistribute<tp, Reduced>(k), redistribute<tp, Reduced>(v));
}

TEST_CASE("the gradient of a value is the sum over all heads") {
  const Mesh<tp> mesh(world(), {any});
  Tape tape;
  const auto q =
      tape.input(randn<double, Shard<2>>(mesh, {1, 1, 4, 2}, 1));  // one token, which attends to itself
  const auto k = tape.input(randn<double, Replicate>(mesh, {1, 1, 1, 2}, 2));
  const auto v = tape.input(randn<double, Replicate>(mesh, {1, 1, 1, 2}, 3));
  tape.backward(redistribute<tp, Replicate>(sum(attend(q, k, v))));
  CHECK(full_tensor(v.gradient()).isApproxToConstant(4));
}
#endif
