// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::one_placement_per_mesh_axis_is_needed, Expected<AxisList<dp, tp>>, Got<Shard<0>>, Cure<Hint::give_one_placement_per_axis>>

#include <shardwise/tensor/from_mesh_to_mesh.hpp>

using namespace shardwise;
using Matrix = Tensor<float, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto spread(const Matrix& x, const Mesh<dp, tp>& mesh) {
  return redistribute<Shard<0>>(x, mesh);
}
#else
auto spread(const Matrix& x, const Mesh<dp, tp>& mesh) {
  return redistribute<Shard<0>, Shard<0>>(x, mesh);
}
#endif
