// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// The type of a tensor has a placement for each axis of its mesh, outermost axis
/// first. `Expected` lists the axes of the mesh, and `Got` lists the given placements.
// expect: LayoutError<Reason::one_placement_per_mesh_axis_is_needed, Expected<AxisList<dp, tp>>, Got<Shard<0>>, Cure<Hint::give_one_placement_per_axis>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/factories.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto start(const Mesh<dp, tp>& mesh) {
  return zeros<float, Shard<0>>(mesh, {64, 32});
}
#else
auto start(const Mesh<dp, tp>& mesh) {
  return zeros<float, Shard<0>, Replicate>(mesh, {64, 32});
}
#endif
