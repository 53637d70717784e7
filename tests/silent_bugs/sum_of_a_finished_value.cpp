// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A finished value summed again
// thread: NovaSky-AI/SkyRL #1420
// thread: huggingface/trl #7100 (mended by #7101)
// thread: allenai/open-instruct #1808
// thread: pytorch/torchtitan #2106
// thread: huggingface/transformers #48167
// there: A value that all ranks of a group already had in full was added up over the group once more: metrics, counts of tokens and a gradient came out as many times too large as there were ranks.
// here: cannot be written
/// `redistribute` goes from what a value is to what it should be. From `Replicate` to `Replicate` is nothing, and there
/// is no call that sums what is not pending.

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;

TEST_CASE("5 tokens are 5, however often they are finished") {
  const Mesh<tp> mesh(world(), {any});
  const auto once = redistribute<tp, Replicate>(sum(full<double, Shard<0>>(mesh, {5}, 1.)));
  CHECK(item(once) == 5);
  CHECK(item(redistribute<tp, Replicate>(once)) == 5);
}
