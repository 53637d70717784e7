// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// A plan's entries have styles, and so has what `PlanWith` and `Styles` add. A block of quantised weights,
/// an axis or a plan is not a style.
// expect: LayoutError<Reason::argument_is_not_a_style, Got<llm::kernel::Block8>, Cure<Hint::write_Quantized_of_the_block_or_LlamaQuantized_of_plan_and_block>>

#include <shardwise/llm/decoding/quantized.hpp>
#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;
using TensorParallel = llm::LlamaTensorParallel<>;

#ifdef SHOULD_FAIL
auto make(const Grid& mesh, const llm::LlamaConfig& config) {
  return llm::Llama<Grid, PlanWith<TensorParallel, llm::Block8>>(mesh, config);
}
#else
auto make(const Grid& mesh, const llm::LlamaConfig& config) {
  return llm::Llama<Grid, llm::LlamaQuantized<TensorParallel, llm::Block8>>(mesh, config);
}
#endif
