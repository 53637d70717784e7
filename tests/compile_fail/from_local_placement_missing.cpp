// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::one_placement_per_mesh_axis_is_needed, Expected<AxisList<dp, tp>>, Got<Shard<0>>, Cure<Hint::give_one_placement_per_axis>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto joined(const Mesh<dp, tp>& mesh, const Eigen::MatrixXf& block) {
  return from_local<Shard<0>>(mesh, block);
}
#else
auto joined(const Mesh<dp, tp>& mesh, const Eigen::MatrixXf& block) {
  return from_local<Shard<0>, Replicate>(mesh, block);
}
#endif
