// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::mesh_has_no_such_axis, Expected<AxisList<dp>>, Got<tp>, Cure<Hint::give_the_mesh_this_axis_where_its_size_may_be_1>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/mlp.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto layer(const Mesh<dp>& mesh) {
  return Mlp<Mesh<dp>>(mesh, 1024, 4096);
}
#else
auto layer(const Mesh<dp>& mesh) {
  return Mlp<Mesh<dp>, float, NoParallel, NoParallel>(mesh, 1024, 4096);
}
#endif
