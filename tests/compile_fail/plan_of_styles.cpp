// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::write_each_entry_as_Use_of_a_name_and_a_style_which_PlanWith_adds_to_all>>

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;
using TensorParallel = llm::LlamaTensorParallel<>;

#ifdef SHOULD_FAIL
auto make(const Grid& mesh, const llm::LlamaConfig& config) {
  return llm::Llama<Grid, PlanAnd<TensorParallel, Frozen>>(mesh, config);
}
#else
auto make(const Grid& mesh, const llm::LlamaConfig& config) {
  return llm::Llama<Grid, PlanWith<TensorParallel, Frozen>>(mesh, config);
}
#endif
