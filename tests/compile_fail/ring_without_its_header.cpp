// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::style_is_incomplete, Got<Ring<.*>>, Cure<Hint::include_shardwise_nn_ring_attention_hpp>>

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/mesh.hpp>
#ifndef SHOULD_FAIL
#include <shardwise/nn/ring_attention.hpp>
#endif

using namespace shardwise;
using Grid = Mesh<dp, tp, cp>;
using TensorParallel = llm::LlamaTensorParallel<>;

auto make(const Grid& mesh, const llm::LlamaConfig& config) {
  return llm::Llama<Grid, PlanAnd<TensorParallel, Use<"layers.*.attention.inner_attention", Ring<cp>>>>(
      mesh, config);
}

#ifdef SHOULD_FAIL
// without the header
#else
// with the header
#endif
