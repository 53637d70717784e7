// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::outer_data_axis_has_the_lower_zero_level, Got<RowwiseParallel<tp.*>, Zero<3, dp>, Zero<1, replica>>, Cure<Hint::give_the_left_axis_the_higher_level>>

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
using namespace shardwise::llm;

struct replica {
  static constexpr const char* name = "replica";
  static constexpr bool data = true;
};
using Grid = Mesh<replica, dp, tp>;
using Within = PlanWith<LlamaTensorParallel<>, FullyShard<dp>>;

#ifdef SHOULD_FAIL
using Sharded = PlanWith<Within, Zero<1, replica>>;
#else
using Sharded = Within;
#endif
auto make(const Grid& mesh, const LlamaConfig& config) {
  return Llama<Grid, Sharded>(mesh, config);
}
