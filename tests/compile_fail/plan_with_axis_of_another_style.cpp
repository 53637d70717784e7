// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::styles_name_one_axis_twice, On<tp>, Got<RowwiseParallel<tp.*>, Zero<3, tp>>, Cure<Hint::give_each_axis_one_style>>

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
using namespace shardwise::llm;
using Grid = Mesh<dp, tp>;

#ifdef SHOULD_FAIL
using Sharded = PlanWith<LlamaTensorParallel<>, FullyShard<tp>>;
#else
using Sharded = PlanWith<LlamaTensorParallel<>, FullyShard<dp>>;
#endif
auto make(const Grid& mesh, const LlamaConfig& config) {
  return Llama<Grid, Sharded>(mesh, config);
}
