// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::plan_names_an_unknown_module, Expected<Name<layers.\*>>, Got<Name<layers.\[4:2\]>>, Cure<Hint::use_the_name_in_Expected>>

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;
using All = llm::LlamaTensorParallel<>;

#ifdef SHOULD_FAIL
using MyPlan = PlanWith<All, Frozen, "tokens", "layers.[4:2]">;
#else
using MyPlan = PlanWith<All, Frozen, "tokens", "layers.[2:4]">;
#endif

auto make(const Grid& mesh, const llm::LlamaConfig& config) {
  return llm::Llama<Grid, MyPlan>(mesh, config);
}
