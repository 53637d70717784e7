// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A view that tears a sharded dimension
// thread: pytorch/pytorch #179502 (mended by #179509)
// thread: pytorch/pytorch #186282
// there: 12 x 8 with cut columns was viewed as 16 x 6, which no rank can do with its own block. The result had elements in wrong places.
// here: refused when called
/// A reshape moves nothing. The type knows dimensions, not extents, so the call refuses it, on every rank.

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/reshape.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;

TEST_CASE("a view is one on every rank, or none") {
  const Mesh<tp> mesh(world(), {any});
  const auto x = randn<double, Shard<1>>(mesh, {12, 8}, 1);
  CHECK_THROWS_AS(reshape(x, {16, 6}), std::invalid_argument);
  if (mesh.size() == 2) {
    CHECK_THROWS_WITH(
        reshape(x, {16, 6}),
        "reshape: [12 x 8] cannot become [16 x 6] without moving data, sharded as it is: dimension 1 "
        "over the 2 ranks of tp, then dimension 1; redistribute to Replicate there first");
  }

  const auto whole = reshape(redistribute<tp, Replicate>(x), {16, 6});
  CHECK(full_tensor(whole).reshaped<Eigen::RowMajor>() == full_tensor(x).reshaped<Eigen::RowMajor>());
}
