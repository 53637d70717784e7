// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// `Ring` is a style for the attention itself, `inner_attention`, not for the module with the projections around it.
// expect: LayoutError<Reason::style_does_not_suit_the_module, Got<Name<layers.*.attention>, Ring<(cp)?>>, Cure<Hint::see_which_modules_the_style_applies_to>>

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/ring_attention.hpp>

using namespace shardwise;
using namespace shardwise::llm;
using Grid = Mesh<cp, tp>;

#ifdef SHOULD_FAIL
using Long = PlanAnd<LlamaTensorParallel<>, Use<"layers.*.attention", Ring<cp>>>;
auto make(const Grid& mesh) {
  return Llama<Grid, Long>(mesh, LlamaConfig());
}
#else
using Long = PlanAnd<LlamaTensorParallel<>, Use<"layers.*.attention.inner_attention", Ring<cp>>>;
auto make(const Grid& mesh) {
  return Llama<Grid, Long>(mesh, LlamaConfig());
}
#endif
