// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::argument_of_the_style_is_not_allowed, Got<llm::Quantized<float>>, Cure<Hint::use_Block16_Block8_or_Block4>>

#include <shardwise/llm/decoding/quantized.hpp>
#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;
using TensorParallel = llm::LlamaTensorParallel<>;

#ifdef SHOULD_FAIL
auto make(const Grid& mesh, const llm::LlamaConfig& config) {
  return llm::Llama<Grid, llm::LlamaQuantized<TensorParallel, float>>(mesh, config);
}
#else
auto make(const Grid& mesh, const llm::LlamaConfig& config) {
  return llm::Llama<Grid, llm::LlamaQuantized<TensorParallel, llm::Block8>>(mesh, config);
}
#endif
