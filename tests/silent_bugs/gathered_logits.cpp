// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A vocabulary-parallel loss fed gathered logits
// thread: NVIDIA/Megatron-LM #7452 (finding 2)
// there: A loss for logits with cut classes received gathered logits. It added up every class once for each rank, and was wrong by the logarithm of the number of ranks: 1.1333 instead of 0.4402 on 2 ranks.
// here: cannot be written
/// There is one loss. The type of the logits tells it whether the classes are cut.

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/cross_entropy_loss.hpp>

using namespace shardwise;

TEST_CASE("one loss for sharded and for gathered logits") {
  const Mesh<tp> mesh(world(), {any});
  const auto logits = distribute<Shard<1>>(mesh, Eigen::MatrixXd{{0, 1, 2, 3}});
  const auto target = full<std::int32_t, Replicate>(mesh, {1}, 3);
  const CrossEntropyLoss loss;
  CHECK(item(loss(logits, target)) == Approx(0.4402).epsilon(1e-4));
  CHECK(item(loss(redistribute<tp, Replicate>(logits), target)) == Approx(0.4402).epsilon(1e-4));
}
