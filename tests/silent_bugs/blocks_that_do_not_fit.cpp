// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: Blocks that do not fit together
// thread: pytorch/pytorch #144109
// thread: pytorch/pytorch #110762
// thread: pytorch/pytorch #172812
// thread: pytorch/pytorch #103306
// there: A program made a tensor from blocks of 2, 3, 4 and 5 columns as if they had equal sizes. Its extents were a rank's own times the number of ranks, or elements came out in other places.
// here: refused when called
/// Blocks are balanced: 14 columns on 4 ranks are 4, 4, 3 and 3. `from_local`
/// compares the shapes of all ranks, and refuses other shapes on every rank.

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;

TEST_CASE("blocks must be those of a tensor") {
  const Mesh<tp> mesh(world(), {any});
  const Eigen::MatrixXd block = Eigen::MatrixXd::Ones(2, 2 + mesh.rank());
  CHECK_THROWS_AS(from_local<Shard<1>>(mesh, block), std::invalid_argument);
  if (mesh.size() == 2) {
    CHECK_THROWS_WITH(
        from_local<Shard<1>>(mesh, block),
        "from_local: the blocks add up to [2 x 5], of which rank 0 should hold [2 x 3], but it brings "
        "[2 x 2] with 4 values");
  }

  const auto x = distribute<Shard<0>>(mesh, Eigen::VectorXd::LinSpaced(10, 0, 9));
  const auto same = from_local<Shard<0>>(mesh, x.local());
  CHECK(same.shape()[0] == 10);
  CHECK(full_tensor(redistribute<tp, Replicate>(same)) == Eigen::VectorXd::LinSpaced(10, 0, 9));
}
