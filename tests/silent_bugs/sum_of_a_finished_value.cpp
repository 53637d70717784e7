// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A finished value summed again
// thread: NovaSky-AI/SkyRL #1420
// thread: huggingface/trl #7100 (mended by #7101)
// thread: allenai/open-instruct #1808
// thread: pytorch/torchtitan #2106
// thread: huggingface/transformers #48167
// there: All ranks of a group already had a value in full, and it was summed over the group once more. Metrics, counts of tokens and a gradient were too large by a factor of the number of ranks.
// here: cannot be written
/// `redistribute` changes a value's present layout into another. From `Replicate`
/// to `Replicate` it does nothing, and no call sums a value that is not pending.

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
