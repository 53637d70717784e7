// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: The norm of one rank's gradients
// thread: pytorch/torchtitan #766
// thread: NVIDIA/Megatron-LM #7452 (finding 8)
// there: The norm lacked the parts of sharded gradients on other ranks.
// here: does not compile
// expect: LayoutError<Reason::value_is_pending_on_every_rank, Got<Tensor<double, 0, Mesh<tp>, Partial<>>>, Cure<Hint::redistribute_to_Replicate_to_finish_the_reduction>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;
using Gradient = Tensor<double, 1, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
double norm_of(const Gradient& gradient) { return std::sqrt(item(sum_of_squares(gradient))); }
#else
double norm_of(const Gradient& gradient) {
  return std::sqrt(item(redistribute<tp, Replicate>(sum_of_squares(gradient))));
}

TEST_CASE("squares of 20 and of 100") {
  const Mesh<tp> mesh(world(), {any});
  CHECK(norm_of(distribute<Shard<0>>(mesh, Eigen::Vector4d(2, 4, 8, 6))) == Approx(10.954452));
}
#endif
