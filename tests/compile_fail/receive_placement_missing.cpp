// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::one_placement_per_mesh_axis_is_needed, Expected<AxisList<dp, tp>>, Got<Shard<0>>, Cure<Hint::give_one_placement_per_axis>>

#include <shardwise/tensor/from_mesh_to_mesh.hpp>

using namespace shardwise;
using Matrix = Tensor<float, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto arrived(const Mesh<tp>& mesh, const MeshRanks<dp, tp>& previous) {
  return receive<Matrix>(mesh, {8, 4}, previous).wait();
}
#else
auto arrived(const Mesh<tp>& mesh, const MeshRanks<dp, tp>& previous) {
  return receive<Matrix, Replicate, Shard<0>>(mesh, {8, 4}, previous).wait();
}
#endif
