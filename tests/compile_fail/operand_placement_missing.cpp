// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::one_placement_per_mesh_axis_is_needed, Expected<AxisList<dp, tp>>, Got<Shard<0>>, Cure<Hint::give_one_placement_per_axis>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/activation.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto activated(const Tensor<float, 2, Mesh<dp, tp>, Shard<0>>& x) {
  return relu(x);
}
#else
auto activated(const Tensor<float, 2, Mesh<dp, tp>, Shard<0>, Replicate>& x) {
  return relu(x);
}
#endif
