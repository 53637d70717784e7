// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: Replicated parameters in the norm of the gradient
// thread: NVIDIA-NeMo/RL #3788
// thread: mindspore-ai/hyper-parallel #526
// thread: ByteDance-Seed/VeOmni #184
// thread: ROCm/TransformerEngine #715
// thread: pytorch/pytorch #170862
// there: The squares of all gradients were added up over all ranks, so parameters that every rank has counted once for each rank. Norms were 1.4 to 1.7 times too large, and gradients were clipped by them.
// here: does not compile
/// The squares of a sharded gradient are pending, and those of a replicated one are
/// not. (`clip_gradients(model, 1.0)` handles a whole model, whatever its layouts are.)
// expect: LayoutError<Reason::pending_sum_meets_a_finished_value, On<tp>, Expected<Partial<>, Partial<>>, Got<Partial<>, Replicate>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/add.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;
template <class P>
using Gradient = Tensor<double, 1, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto squared_norm(const Gradient<Shard<0>>& weight, const Gradient<Replicate>& bias) {
  return add(sum_of_squares(weight), sum_of_squares(bias));
}
#else
auto squared_norm(const Gradient<Shard<0>>& weight, const Gradient<Replicate>& bias) {
  return add(redistribute<tp, Replicate>(sum_of_squares(weight)), sum_of_squares(bias));
}

TEST_CASE("the norm is 5, on any number of ranks") {
  const Mesh<tp> mesh(world(), {any});
  const auto weight = full<double, Shard<0>>(mesh, {9}, 1.);
  const auto bias = full<double, Replicate>(mesh, {4}, 2.);
  CHECK(item(squared_norm(weight, bias)) == 25);
}
#endif
