// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// A slice names modules in some elements of a list; `Expected` is the nearest name.
// expect: LayoutError<Reason::plan_names_an_unknown_module, Expected<Name<layers.\*.mlp.down>>, Got<Name<layers.\[:4\].mlp.dwon>>, Cure<Hint::use_the_name_in_Expected>>

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;
using All = llm::LlamaTensorParallel<>;

#ifdef SHOULD_FAIL
using MyPlan = PlanAnd<All, Use<"layers.[:4].mlp.dwon", NoParallel>>;
#else
using MyPlan = PlanAnd<All, Use<"layers.[:4].mlp.down", NoParallel>>;
#endif

auto make(const Grid& mesh, const llm::LlamaConfig& config) {
  return llm::Llama<Grid, MyPlan>(mesh, config);
}
