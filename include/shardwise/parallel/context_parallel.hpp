// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Context parallelism: sequences are sharded throughout the model, along an axis of their own, and redistributed at
/// attention. Attention itself is a module without parameters, `inner_attention`, that takes q, k and v; these are
/// styles for it, where q, k and v are [batch, positions, heads, head_dim]:
///   - `GatherKeys<cp>`: q stays `Shard<1>`, k and v become `Reduced`; 2 all-gathers (of k and v) per layer, and 2
///     reduce-scatters in the backward pass.
///   - `Ulysses<cp>`: q, k and v become `Shard<2>`, the result `Shard<1>` again; 4 all-to-alls in each pass.
///   - `UlyssesShared<cp>`: q becomes `Shard<2>`, k and v `Reduced`, the result `Shard<1>`; 2 all-gathers and 2
///     all-to-alls, and 2 reduce-scatters and 2 all-to-alls in the backward pass.
///
/// ```
/// using Mine = PlanAnd<LlamaTensorParallel<tp>, Use<"layers.*.attention.inner_attention", Ulysses<cp>>>;
/// Llama<Mesh<dp, tp, cp>, Mine> model(mesh, config);   // ids are Shard<0> along dp, Shard<1> along cp
/// ```
/// `Ring<cp>` does not redistribute; it needs nn/ring_attention.hpp.
/// `GatherKeys` moves the least data if there are few key/value heads, and works for any number of ranks. Causal
/// attention is then unbalanced: the last rank has nearly twice the mean work. `Ulysses` (Jacobs et al., "DeepSpeed
/// Ulysses", 2023) gives each rank heads with whole sequences, so the work is balanced, but it needs at least as many
/// key/value heads as ranks of `tp` and `cp`. `UlyssesShared` needs only as many query heads. If `tp` shards heads as
/// well, put `cp` to its right in the mesh, so that each rank keeps its own heads; if `tp` shards sequences as well
/// (`SequenceParallel`), put `cp` to its left, and use `GatherKeys`.

#include <shardwise/ops/attention.hpp>
#include <shardwise/parallel/plan.hpp>
#include <shardwise/parallel/prepare_module.hpp>

namespace shardwise {

/// `attention` as a module without parameters: for styles that redistribute q, k and v.
struct InnerAttention : Module<InnerAttention> {
  /// q, k and v; documents, if any; `AttentionOptions`.
  constexpr auto forward(const auto&... arguments) const { return attention(arguments...); }
  constexpr void visit(auto&&) {}
};

template <StyleAxes Axes = cp>
using GatherKeys = PrepareModuleInput<Axes, Unchanged, Reduced, Reduced>;

template <StyleAxes Axes = cp>
using Ulysses = PrepareModuleInputOutput<Axes, arguments<Shard<2>, Shard<2>, Shard<2>>, results<Shard<1>>>;

template <StyleAxes Axes = cp>
using UlyssesShared =
    PrepareModuleInputOutput<Axes, arguments<Shard<2>, Reduced, Reduced>, results<Shard<1>>>;

/// A style for `InnerAttention`. A block of keys and values travels to all ranks that have queries attending to it.
/// In the backward pass their gradients travel along, and return home from there. Causal attention is balanced: ranks
/// exchange halves of their blocks (see `RingSteps`). nn/ring_attention.hpp must be included.
template <MeshAxis Axis = cp>
struct Ring : PrepareModuleInput<Axis, Shard<1>, Shard<1>, Shard<1>> {
  static constexpr bool suits(ModuleKind kind) { return kind == ModuleKind::inner_attention; }
};

template <MeshAxis Axis = cp>
class RingAttention;

namespace detail {
/// Without the header, `Ring` is only a name.
template <class MeshType, class Axis, class... Rest>
  requires(!requires { sizeof(RingAttention<Axis>); })
struct StyleProblem<MeshType, ModuleKind::inner_attention, Ring<Axis>, Rest...>
    : TypeIs<LayoutError<Reason::style_is_incomplete, Got<Ring<Axis>>,
                         Cure<Hint::include_shardwise_nn_ring_attention_hpp>>> {};
}  // namespace detail

}  // namespace shardwise
