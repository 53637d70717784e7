// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// Two slices may not give one module two styles in the same elements.
// expect: LayoutError<Reason::plan_names_a_module_twice, Expected<Name<layers.\*.mlp.up>>, Got<Name<layers.\[:4\].mlp.up>, Name<layers.\[3:\].mlp.\*>>, Cure<Hint::keep_one_of_the_two>>

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;
using All = llm::LlamaTensorParallel<>;

#ifdef SHOULD_FAIL
using MyPlan = PlanAnd<All, Use<"layers.[:4].mlp.up", NoParallel>, Use<"layers.[3:].mlp.*", NoParallel>>;
#else
using MyPlan = PlanAnd<All, Use<"layers.[:3].mlp.up", ColwiseParallel<tp>>,
                       Use<"layers.[3:].mlp.up", ColwiseParallel<tp>>>;
#endif

auto make(const Grid& mesh, const llm::LlamaConfig& config) {
  return llm::Llama<Grid, MyPlan>(mesh, config);
}
