// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: Heads and vocabularies that do not divide
// thread: huggingface/optimum-neuron #1111
// thread: hpcaitech/ColossalAI #6167
// thread: pytorch/pytorch #126595
// thread: sgl-project/sglang #20967
// there: There were fewer heads than ranks, or the ranks did not divide the vocabulary. Blocks were padded, cut off or torn. Only a checkpoint showed it, or generated texts that repeated themselves.
// here: refused when called
/// Blocks may be uneven, and Shardwise pads nothing: a vocabulary may have any size. It never splits a head.

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/attention.hpp>
#include <shardwise/ops/embedding.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;

TEST_CASE("one head cannot be shared, and 5 words can") {
  const Mesh<tp> mesh(world(), {any});
  CHECK_THROWS_AS(Attention<Mesh<tp>>(mesh, 4, 1), std::invalid_argument);
  if (mesh.size() == 2) {
    CHECK_THROWS_WITH(
        Attention<Mesh<tp>>(mesh, 4, 1),
        "Attention: 1 heads cannot be shared by the 2 ranks of axis tp: a head is not split, so use at "
        "most 1 ranks");
  }

  const auto table = distribute<Shard<0>>(mesh, Eigen::MatrixXd{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}});
  const auto words = full<std::int32_t, Reduced>(mesh, {2}, 4);
  CHECK(full_tensor(embedding(words, table)).isApprox(Eigen::MatrixXd{{8, 9}, {8, 9}}));
}
