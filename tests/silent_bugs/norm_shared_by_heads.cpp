// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A norm that all heads share
// thread: NVIDIA/Megatron-LM #7452 (finding 11)
// there: Each rank normalised its own heads with one shared weight. The weight's gradient, a term on each rank, was reduced only if sequence parallelism was on as well.
// here: does not compile
// expect: LayoutError<Reason::replicated_operand_meets_blocks_so_its_gradient_would_be_pending, On<tp>, Expected<Shard<1>, Reduced>, Got<Shard<1>, Replicate>, Cure<Hint::redistribute_to_Reduced_which_is_free>>

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/autograd/tape.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/rms_norm.hpp>

using namespace shardwise;
using Heads = Var<Tensor<double, 3, Mesh<tp>, Shard<1>>>;  // [tokens, heads, features]
using Weight = Var<Tensor<double, 1, Mesh<tp>, Replicate>>;

#ifdef SHOULD_FAIL
auto normalised(const Heads& x, const Weight& weight) { return rms_norm(x, weight); }
#else
auto normalised(const Heads& x, const Weight& weight) {
  return rms_norm(x, redistribute<tp, Reduced>(weight));
}

TEST_CASE("the gradient of a norm's weight is the sum over all heads") {
  const Mesh<tp> mesh(world(), {any});
  Tape tape;
  const auto x = tape.input(full<double, Shard<1>>(mesh, {3, 4, 2}, 5.));
  const auto weight = tape.input(full<double, Replicate>(mesh, {2}, 1.));
  tape.backward(redistribute<tp, Replicate>(sum(normalised(x, weight))));
  CHECK(full_tensor(weight.gradient()).isApproxToConstant(3 * 4, 1e-5));
}
#endif
