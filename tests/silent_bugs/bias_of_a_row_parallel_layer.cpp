// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: The bias of a row-parallel layer
// thread: pytorch/torchtitan #4245
// thread: huggingface/text-generation-inference #1036
// thread: Wenyueh/MinivLLM #80
// there: Every rank added the whole bias to its term of the product, so the sum had the bias once for each rank: 230, 470 and 710 instead of 130, 270 and 410.
// here: does not compile
// expect: LayoutError<Reason::pending_sum_meets_a_finished_value, On<tp>, Expected<Partial<>, Partial<>>, Got<Partial<>, Replicate>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/add.hpp>
#include <shardwise/ops/linear.hpp>

using namespace shardwise;
using Columns = Tensor<double, 2, Mesh<tp>, Shard<1>>;
using Bias = Tensor<double, 1, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
auto layer(const Columns& x, const Columns& weight, const Bias& bias) { return add(linear(x, weight), bias); }
#else
auto layer(const Columns& x, const Columns& weight, const Bias& bias) {
  return add(redistribute<tp, Replicate>(linear(x, weight)), bias);
}

TEST_CASE("a bias is added once") {
  const Mesh<tp> mesh(world(), {any});
  const auto x = distribute<Shard<1>>(mesh, Eigen::MatrixXd{{1, 2, 3, 4}, {5, 6, 7, 8}});
  const auto weight =
      distribute<Shard<1>>(mesh, Eigen::MatrixXd{{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}});
  const auto bias = distribute<Replicate>(mesh, Eigen::Vector3d(100, 200, 300));
  CHECK(full_tensor(layer(x, weight, bias)).isApprox(Eigen::MatrixXd{{130, 270, 410}, {170, 374, 578}}));
}
#endif
