// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: The mean over uneven blocks
// thread: pytorch/pytorch #162692
// there: A mean was the average of the means of the ranks' blocks, although one block has more rows: 6.5 instead of 5.5, and NaN where a rank has no rows.
// here: cannot be written
/// `mean` gives a term on each rank, divided by the number of all elements. There are no pending means.

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/reduction.hpp>

using namespace shardwise;

TEST_CASE("a mean is that of all elements") {
  const Mesh<tp> mesh(world(), {any});
  const auto x = distribute<Shard<0>>(mesh, Eigen::MatrixXd{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}});
  CHECK(item(redistribute<tp, Replicate>(mean(x))) == 5.5);
  const auto one_row = distribute<Shard<0>>(mesh, Eigen::MatrixXd{{0, 1, 2, 3}});
  CHECK(item(redistribute<tp, Replicate>(mean(one_row))) == 1.5);
}
