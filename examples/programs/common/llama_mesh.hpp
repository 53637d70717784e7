// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The meshes, real or dry, for training a Llama and for generating text; and its plans.

#include <array>
#include <string>
#include <type_traits>

#include <shardwise/llm/models/llama/plan.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/parallel/zero.hpp>

namespace tools {

namespace sw = shardwise;

/// Data parallelism between groups, each with a copy of everything: hybrid sharding, in which `dp` shards within a
/// group.
struct replica {
  static constexpr const char* name = "replica";
  static constexpr bool data = true;
};

/// The mesh of a stage: sequences are split over replica and dp, their positions over cp; heads and features over tp
/// and kvr; key and value heads only over tp.
using Mesh = sw::Mesh<replica, sw::dp, sw::cp, sw::tp, sw::kvr>;
using Split = sw::AxisList<sw::tp, sw::kvr>;

/// All stages: layers are divided over pp.
using Job = sw::Mesh<sw::pp, replica, sw::dp, sw::cp, sw::tp, sw::kvr>;
using JobPlan = Job::PlanOf;
/// The job's sizes, or coordinates in it.
using JobSizes = std::array<int, 6>;

/// The job's sizes, if `tp` ranks split a model with this number of key/value heads.
constexpr JobSizes job_sizes(int pp, int replicas, int dp, int cp, int tp, sw::Index kv_heads) {
  const int with_own_heads = sw::llm::key_value_ranks(tp, kv_heads);
  return {pp, replicas, dp, cp, with_own_heads, tp / with_own_heads};
}
constexpr JobSizes on_job_mesh(const sw::MeshSizes& numbers) {
  return {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]};
}
/// "pp 1 x replica 1 x dp 4 x tp 2 x kvr 1"; with cp only if it has several ranks.
inline std::string sizes_text(const JobSizes& sizes) {
  std::string text;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    const std::string name = Job::AxesOf::names[axis];
    if (name == "cp" && sizes[axis] == 1) continue;
    text += (text.empty() ? "" : " x ") + name + " " + std::to_string(sizes[axis]);
  }
  return text;
}

/// The part of a job with only this rank's replica: a model there does not know of the others.
constexpr Job own_replica(const Job& job) {
  sw::RankGrid ranks = job.place().ranks;
  ranks.first += ranks.strides[1] * job.rank<replica>();
  ranks.sizes[1] = 1;
  return job.part(sw::MeshRanks<sw::pp, replica, sw::dp, sw::cp, sw::tp, sw::kvr>(ranks));
}

/// The largest number on any rank of a job: counted as part of the previous step, also in its plan.
constexpr std::int32_t largest(const Job& job, std::int32_t number) {
  const sw::PhaseScope phase(job.recorder(), sw::Phase::optimizer);
  sw::MeshView(job).all_reduce(&number, 1, sw::DataType::i32, sw::ReduceOp::max);
  return number;
}
/// Whether all ranks pass true.
constexpr bool agree(const Job& job, bool ok) { return largest(job, ok ? 0 : 1) == 0; }

/// Tensor parallel, optionally sequence parallel; along cp, each rank gathers the keys and values of all positions.
template <bool Sequence>
using SplitPlan = sw::PlanAnd<
    std::conditional_t<Sequence, sw::llm::LlamaSequenceParallel<Split>, sw::llm::LlamaTensorParallel<Split>>,
    sw::Use<"layers.*.attention.inner_attention", sw::GatherKeys<sw::cp>>>;
/// The same with a ZeRO level from 0 to 3 on dp and cp.
template <int ZeroLevel, bool Sequence>
using TrainPlan = sw::PlanWith<SplitPlan<Sequence>, sw::Zero<ZeroLevel, sw::AxisList<sw::dp, sw::cp>>>;

/// For models with experts, which are split over all ranks of a replica. `As`: nothing, or `sw::by_counts`.
template <int ZeroLevel, bool Sequence, class... As>
using ExpertPlan = sw::PlanWith<
    sw::llm::LlamaExpertParallel<SplitPlan<Sequence>, sw::AxisList<sw::dp, sw::tp, sw::kvr>, As...>,
    sw::Zero<ZeroLevel, sw::AxisList<sw::dp, sw::cp>>>;

template <class PlanType, class Style>
struct WithTokens;
template <class Tokens, class... Rest, class Style>
struct WithTokens<sw::Plan<Tokens, Rest...>, Style> {
  static_assert(Tokens::name == "tokens");
  using type = sw::Plan<sw::Use<"tokens", Style>, Rest...>;
};
/// The same with a ZeRO level from 0 to 2, and another style for the table of tokens: columns sharded, or whole on every
/// rank.
template <int ZeroLevel, bool Sequence, class Style>
using EmbeddingPlan = sw::PlanWith<typename WithTokens<SplitPlan<Sequence>, Style>::type,
                                   sw::Zero<ZeroLevel, sw::AxisList<sw::dp, sw::cp>>>;
using ColumnsPlan = EmbeddingPlan<2, false, sw::ColwiseParallel<Split, sw::output<sw::Replicate>>>;
template <int ZeroLevel, bool Sequence>
using ReplicatedPlan =
    EmbeddingPlan<ZeroLevel, Sequence,
                  std::conditional_t<Sequence, sw::SequenceParallel<Split>, sw::NoParallel>>;
/// The table of tokens and the first n layers are frozen; and the head, if it is the table.
template <int ZeroLevel, bool Sequence>
using FrozenPlan = sw::PlanWith<TrainPlan<ZeroLevel, Sequence>, sw::Frozen, "tokens", "layers.[:n]">;
template <bool Sequence>
using FrozenTiedPlan = sw::PlanWith<TrainPlan<2, Sequence>, sw::Frozen, "tokens", "layers.[:n]", "head">;
/// Frozen, with adapters to be trained in the last n layers. The job says their rank.
template <int ZeroLevel, bool Sequence>
using AdaptedPlan = sw::llm::LlamaAdapted<TrainPlan<ZeroLevel, Sequence>, 8, 16, "layers.[-n:]">;
template <bool Sequence>
using AdaptedExpertPlan = sw::llm::LlamaAdapted<ExpertPlan<1, Sequence>, 8, 16, "layers.[-n:]">;

}  // namespace tools
