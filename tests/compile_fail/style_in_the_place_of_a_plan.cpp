// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// A style is of one module; a model of several has a plan.
// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::pass_a_plan_which_PlanWith_takes_first>>

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/shardwise.hpp>

using namespace shardwise;
using namespace shardwise::llm;
using Grid = Mesh<dp, tp>;

#ifdef SHOULD_FAIL
auto make(const Grid& mesh, const LlamaConfig& config) {
  return Llama<Grid, PlanWith<FullyShard<dp>, LlamaTensorParallel<>>>(mesh, config);
}
#else
auto make(const Grid& mesh, const LlamaConfig& config) {
  return Llama<Grid, PlanWith<LlamaTensorParallel<>, FullyShard<dp>>>(mesh, config);
}
#endif
