// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: Masks of dropout that are alike where they must differ
// thread: tenstorrent/tt-metal #55947
// thread: tenstorrent/tt-metal #16822
// thread: huggingface/transformers #31412
// thread: PaddlePaddle/PaddleFleetX #1005
// thread: InternLM/InternLM #405
// thread: ecmwf/anemoi-core #595
// thread: volcengine/veScale #52
// there: Ranks with different rows had the same generator and dropped the same places. In other cases, ranks with copies of the same rows had different generators.
// here: cannot be written
/// There is no generator. The seed and the place of an element in the whole tensor decide whether it is dropped.

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/dropout.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;

TEST_CASE("one mask, in whatever layout") {
  const Mesh<tp> mesh(world(), {any});
  const auto whole = full_tensor(dropout(full<double, Replicate>(mesh, {8, 6}, 1.), 0.5, 1));
  CHECK(full_tensor(dropout(full<double, Shard<0>>(mesh, {8, 6}, 1.), 0.5, 1)) == whole);
  CHECK(full_tensor(dropout(full<double, Shard<1>>(mesh, {8, 6}, 1.), 0.5, 1)) == whole);
  CHECK_FALSE(whole.topRows(4) == whole.bottomRows(4));
}
