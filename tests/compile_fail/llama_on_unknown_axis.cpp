// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::mesh_has_no_such_axis, Expected<AxisList<dp, tp>>, Got<kvr>, Cure<Hint::give_the_mesh_this_axis_where_its_size_may_be_1>>

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
using namespace shardwise::llm;
template <class MeshType>
using Grouped = Llama<MeshType, LlamaTensorParallel<AxisList<tp, kvr>>>;

#ifdef SHOULD_FAIL
auto model(const Mesh<dp, tp>& mesh) {
  return Grouped<Mesh<dp, tp>>(mesh, {});
}
#else
auto model(const Mesh<dp, tp, kvr>& mesh) {
  return Grouped<Mesh<dp, tp, kvr>>(mesh, {});
}
#endif
