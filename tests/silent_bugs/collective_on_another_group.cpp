// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A collective on another group
// thread: NVIDIA/Megatron-LM #7452 (finding 4, mended by #7403)
// thread: NVIDIA/Megatron-LM #7452 (finding 5)
// thread: NVIDIA/Megatron-LM #7452 (finding 7)
// there: A model had its own group of tensor-parallel ranks, and one of its many collectives used the global group: the sample 0, 1, 2, 3 became 0, 1, 0, 1.
// here: cannot be written
/// No call takes a group. A tensor knows its mesh, and `redistribute` names one of the mesh's axes.

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;

TEST_CASE("each group scatters and gathers its own sample") {
  const Mesh<dp, tp> job(world(), {world().size() % 2 == 0 ? 2 : 1, any});
  const Mesh<tp> group = job.submesh<tp>();
  const Eigen::VectorXd sample = Eigen::VectorXd::LinSpaced(4, 0, 3).array() + 10 * job.rank<dp>();
  const auto scattered = redistribute<tp, Shard<0>>(distribute<Replicate>(group, sample));
  CHECK(full_tensor(redistribute<tp, Replicate>(scattered)) == sample);
}
