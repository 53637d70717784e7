// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: The input of experts
// about: mixtures of experts
// thread: NVIDIA-NeMo/Automodel #1260
// there: Each rank gathered the tokens of all ranks, and computed its own experts. The backward pass took the gradient of the tokens for the same on all ranks, and cut out a rank's own tokens without a sum: a loss of 1.6 after 106 steps, instead of 1.4.
// here: does not compile
/// With the tokens of all ranks, each rank computes the terms of its experts. So the tokens are `Reduced`: each rank does
/// something else with them, and their gradient is a pending sum. The way from `Shard<0>` to `Reduced` is an all-gather,
/// and its backward pass is a reduce-scatter.
// expect: LayoutError<Reason::replicated_operand_meets_blocks_so_its_gradient_would_be_pending, On<ep>, Expected<Reduced, Reduced, Reduced, Shard<0>, Shard<0>>, Got<Replicate, Reduced, Reduced, Shard<0>, Shard<0>>, Cure<Hint::redistribute_to_Reduced_which_is_free>>

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/autograd/tape.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/experts.hpp>
#include <shardwise/ops/reduction.hpp>

using namespace shardwise;
using Tokens = Var<Tensor<double, 2, Mesh<ep>, Shard<0>>>;  // [tokens, features]
using Weights = Var<Tensor<double, 2, Mesh<ep>, Reduced>>;  // [tokens, choices]
using Ids = Var<Tensor<std::int64_t, 2, Mesh<ep>, Reduced>, false>;
using GateUp = Var<Tensor<double, 4, Mesh<ep>, Shard<0>>>;  // the experts
using Down = Var<Tensor<double, 3, Mesh<ep>, Shard<0>>>;

#ifdef SHOULD_FAIL
auto mixture(const Tokens& x, const Ids& ids, const Weights& weights, const GateUp& gate_up,
             const Down& down) {
  return experts(redistribute<ep, Replicate>(x), ids, weights, gate_up, down);
}
#else
auto mixture(const Tokens& x, const Ids& ids, const Weights& weights, const GateUp& gate_up,
             const Down& down) {
  return redistribute<ep, Shard<0>>(experts(redistribute<ep, Reduced>(x), ids, weights, gate_up, down));
}

TEST_CASE("the gradient of a token comes from all of its experts") {
  const Mesh<ep> mesh(world(), {any});
  Tape tape;
  const auto x = tape.input(full<double, Shard<0>>(mesh, {8, 1}, 2.));
  std::vector<std::int64_t> chosen;
  for (std::int64_t t = 0; t < 8; ++t) chosen.insert(chosen.end(), {t % 4, (t + 1) % 4});
  const auto ids =
      tape.constant(redistribute<ep, Reduced>(distribute<Replicate>(mesh, Shape<2>{8, 2}, chosen)));
  const auto y = mixture(x, ids, tape.input(full<double, Reduced>(mesh, {8, 2}, 0.5)),
                         tape.input(full<double, Shard<0>>(mesh, {4, 2, 1, 1}, 1.)),
                         tape.input(full<double, Shard<0>>(mesh, {4, 1, 1}, 1.)));
  tape.backward(redistribute<ep, Replicate>(sum(y)));
  const double s = 1 / (1 + std::exp(-2.));  // y = silu(x) x
  CHECK(full_tensor(y.value()).isApproxToConstant(4 * s));
  CHECK(full_tensor(x.gradient()).isApproxToConstant(4 * s + 4 * s * (1 - s)));
}
#endif
