// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: Fused q, k and v, cut as one
// thread: hpcaitech/ColossalAI #817
// thread: deepspeedai/DeepSpeed #3844
// there: One matrix for queries, keys and values was cut into as many blocks as there are ranks. Each rank used a third of its block as queries, so another number of ranks gave another model.
// here: does not compile
// expect: LayoutError<Reason::operation_needs_this_dimension_whole_on_every_rank, On<tp>, Expected<Shard<0>>, Got<Shard<1>>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/linear.hpp>
#include <shardwise/ops/narrow.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<double, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto queries(const Matrix<Reduced>& x, const Matrix<Shard<0>>& fused) {
  return narrow<1>(linear(x, fused), 0, 2);
}
#else
auto queries(const Matrix<Reduced>& x, const Matrix<Shard<0>>& weight) {  // a matrix for each of the three
  return linear(x, weight);
}

TEST_CASE("queries of any number of ranks") {
  const Mesh<tp> mesh(world(), {any});
  const auto x = distribute<Reduced>(mesh, Eigen::MatrixXd{{1, 2}});
  const auto weight = distribute<Shard<0>>(mesh, Eigen::MatrixXd{{1, 2}, {3, 4}, {5, 6}, {7, 8}});
  CHECK(full_tensor(queries(x, weight)).isApprox(Eigen::MatrixXd{{5, 11, 17, 23}}));
}
#endif
