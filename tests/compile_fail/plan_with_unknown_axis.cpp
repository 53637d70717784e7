// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// A style for all modules of a plan is over axes of the mesh too.
// expect: LayoutError<Reason::mesh_has_no_such_axis, Expected<AxisList<tp>>, Got<dp>, Cure<Hint::give_the_mesh_this_axis_where_its_size_may_be_1>>

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
using namespace shardwise::llm;

#ifdef SHOULD_FAIL
using Grid = Mesh<tp>;
#else
using Grid = Mesh<dp, tp>;
#endif
auto make(const Grid& mesh, const LlamaConfig& config) {
  return Llama<Grid, PlanWith<LlamaTensorParallel<>, FullyShard<dp>>>(mesh, config);
}
