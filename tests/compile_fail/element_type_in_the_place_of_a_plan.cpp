// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::pass_a_plan_which_PlanWith_takes_first>>

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;
using TensorParallel = llm::LlamaTensorParallel<>;

#ifdef SHOULD_FAIL
auto make(const Grid& mesh, const llm::LlamaConfig& config) {
  return llm::Llama<Grid, Eigen::bfloat16>(mesh, config);
}
#else
auto make(const Grid& mesh, const llm::LlamaConfig& config) {
  return llm::Llama<Grid, TensorParallel, Eigen::bfloat16>(mesh, config);
}
#endif
