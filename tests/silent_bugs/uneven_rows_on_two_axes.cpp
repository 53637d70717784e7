// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: Uneven rows on two axes
// thread: pytorch/pytorch #194457
// thread: pytorch/pytorch #161368
// there: Two axes cut rows, one inside the other. The rows were gathered, or placed, as if one axis with as many ranks had cut them: of 5 rows on 2 x 2 ranks the last was lost.
// here: numerics only
/// A right and a wrong `redistribute` have the same types. A `constexpr` function gives
/// the begin of a block, and tests simulate every route between layouts, uneven ones too.

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;

TEST_CASE("5 rows on 2 x 2 ranks") {
  const Mesh<dp, tp> mesh(world(), {world().size() % 2 == 0 ? 2 : 1, any});
  Eigen::MatrixXd rows(5, 3);
  rows << 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14;
  const auto nested = distribute<Shard<0>, Shard<0>>(mesh, rows);
  CHECK(full_tensor(nested).isApprox(rows));
  CHECK(full_tensor(redistribute<Replicate, Shard<1>>(nested)).isApprox(rows));
}
