// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The mesh that a Llama is trained on, really or dry, and that writes text; and its plans.

#include <array>
#include <type_traits>

#include <shardwise/models/llama/plan.hpp>
#include <shardwise/parallel/zero.hpp>

namespace tools {

namespace sw = shardwise;

/// Data parallelism between groups that have a copy of everything each: hybrid sharding, where `dp` shards within a
/// group.
struct replica {
  static constexpr const char* name = "replica";
  static constexpr bool data = true;
};

/// Sequences are split over replica and dp; heads and features over tp and kvr; key and value heads over tp alone.
template <template <class...> class MeshKind>
using LlamaMesh = MeshKind<replica, sw::dp, sw::tp, sw::kvr>;
using Split = sw::AxisList<sw::tp, sw::kvr>;

/// The sizes of that mesh, if `tp` ranks split a model with so many key/value heads.
constexpr std::array<int, 4> mesh_sizes(int replicas, int dp, int tp, sw::Index kv_heads) {
  const int with_own_heads = sw::key_value_ranks(tp, kv_heads);
  return {replicas, dp, with_own_heads, tp / with_own_heads};
}

/// The sizes or coordinates of such a mesh, for another one.
constexpr std::array<int, 4> on_llama_mesh(const sw::MeshSizes& numbers) {
  return {numbers[0], numbers[1], numbers[2], numbers[3]};
}

/// Tensor parallel, also sequence parallel if wanted, and ZeRO of a level from 0 to 3 on dp.
template <int ZeroLevel, bool Sequence>
using TrainPlan = sw::PlanWith<
    std::conditional_t<Sequence, sw::LlamaSequenceParallel<Split>, sw::LlamaTensorParallel<Split>>,
    sw::Zero<ZeroLevel, sw::dp>>;

}  // namespace tools
