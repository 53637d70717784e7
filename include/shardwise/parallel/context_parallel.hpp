// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Context parallelism: sequences are sharded from end to end, along an axis of their own, and what comes into attention is
/// redistributed there. Attention itself is a module without parameters, `inner_attention`, that takes q, k and v; these are
/// styles for it:
///
/// | style              | q, k, v [batch, positions, heads, head_dim] become     | forward, a layer              | backward |
/// |--------------------|--------------------------------------------------------|-------------------------------|----------|
/// | `GatherKeys<cp>`   | `Shard<1>`, `Reduced`, `Reduced`                       | 2 all-gathers, of k and v     | 2 reduce-scatters |
/// | `Ulysses<cp>`      | `Shard<2>`, and the result `Shard<1>` again            | 4 all-to-alls                 | 4 all-to-alls |
/// | `UlyssesShared<cp>`| `Shard<2>`, `Reduced`, `Reduced`, and the result `Shard<1>` | 2 all-gathers, 2 all-to-alls | 2 reduce-scatters, 2 all-to-alls |
///
/// ```
/// using Mine = PlanAnd<LlamaTensorParallel<tp>, Use<"layers.*.attention.inner_attention", Ulysses<cp>>>;
/// Llama<Mesh<dp, tp, cp>, Mine> model(mesh, config);   // ids are Shard<0> along dp, Shard<1> along cp
/// ```
/// (`Ring<cp>`, which is no redistribution, is in nn/ring_attention.hpp.)
/// `GatherKeys` moves least where key/value heads are few, and any number of ranks will do. Causal attention is then more work on
/// later ranks: the last has nearly twice the mean. `Ulysses` (Jacobs et al., "DeepSpeed Ulysses", 2023) gives each rank heads with
/// whole sequences: all have the same work, but there must be as many key/value heads as ranks of `tp` and `cp`, or else as many
/// heads: `UlyssesShared`. Where `tp` shards heads as well, `cp` is to its right in the mesh, so that each rank keeps heads of its
/// own; where `tp` shards sequences as well (`SequenceParallel`), `cp` is to its left, and `GatherKeys` goes with it.

#include <shardwise/ops/attention.hpp>
#include <shardwise/parallel/plan.hpp>
#include <shardwise/parallel/prepare_module.hpp>

namespace shardwise {

/// `attention` as a module, which has no parameters: for styles that redistribute q, k and v.
struct InnerAttention : Module<InnerAttention> {
  /// q, k and v; documents, if there are any; `AttentionOptions`.
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

}  // namespace shardwise
