// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::frozen_parameter_has_no_gradient, Got<Parameter<.*>>, Cure<Hint::train_adapters_beside_it_as_LlamaAdapted_does_or_leave_it_unquantised>>

#include <shardwise/llm/decoding/quantized.hpp>
#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;
using TensorParallel = llm::LlamaTensorParallel<>;

#ifdef SHOULD_FAIL
auto gradient(const llm::Llama<Grid, llm::LlamaQuantized<TensorParallel, llm::Block8>>& model) {
  return model.head->weight.gradient();
}
#else
auto gradient(const llm::Llama<Grid, TensorParallel>& model) {
  return model.head->weight.gradient();
}
#endif
