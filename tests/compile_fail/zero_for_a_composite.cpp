// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// A module of modules has no parameters of its own: its layers get the style, each or all by `PlanWith`.
// expect: LayoutError<Reason::style_does_not_suit_the_module, Got<Name<layers.*>, Zero<3, dp>>, Cure<Hint::see_which_modules_the_style_applies_to>>

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
using namespace shardwise::llm;
using Grid = Mesh<dp, tp>;

template <class... Uses>
constexpr auto with_layers_sharded(Plan<Uses...>) -> Plan<Uses..., Use<"layers.*", FullyShard<dp>>>;

#ifdef SHOULD_FAIL
using Sharded = decltype(with_layers_sharded(LlamaTensorParallel<>{}));
#else
using Sharded = PlanWith<LlamaTensorParallel<>, FullyShard<dp>>;
#endif
auto make(const Grid& mesh, const LlamaConfig& config) {
  return Llama<Grid, Sharded>(mesh, config);
}
