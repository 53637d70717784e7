// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The training step of the examples, counted by the compiler.

#include <shardwise/llm/data/load_batch.hpp>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <shardwise/train/adamw.hpp>

#include "../../examples/programs/common/llama_mesh.hpp"
#include "../../examples/programs/common/train_step.hpp"

namespace tools {
namespace {

struct Never {
  constexpr bool operator()(const StepResult&) const { return false; }
};

/// Of a model with one layer, which is three units.
template <class PlanType, class BeforeUpdate = Always>
constexpr auto step(const JobSizes& sizes, sw::Index micro_batches) {
  return sw::trace<Job>(sizes, [&](const Job& job) {
    constexpr sw::llm::LlamaConfig config{
        .vocabulary = 16, .features = 8, .layers = 1, .heads = 2, .kv_heads = 1, .hidden = 8, .context = 4};
    const sw::Pipeline pipeline(job, sw::one_forward_one_backward(1, static_cast<int>(micro_batches)));
    const Mesh& mesh = pipeline.mesh();
    auto stages = pipeline.stages(
        [&](int, const Mesh& of_stage) { return sw::llm::Llama<Mesh, PlanType>(of_stage, config); });
    sw::AdamW adamw;
    auto load = [&](sw::Index) {
      using Ids = sw::llm::TokenIds<Mesh>;
      return sw::llm::LoadedBatch<Mesh>{Ids(mesh, {4, 4}), Ids(mesh, {4, 4}), 16 * micro_batches};
    };
    train_step(pipeline, stages, adamw, {.micro_batches = micro_batches}, load, BeforeUpdate());
  });
}

using sw::Collective, sw::Phase;
static_assert(job_sizes(5, 2, 3, 7, 8, 2) == JobSizes{5, 2, 3, 7, 2, 4});

// Fully sharded over dp, with two copies: shards are reduced between these once, in one bucket.
constexpr auto hybrid = step<TrainPlan<3, false>>({1, 2, 2, 1, 1, 1}, 2);
static_assert(hybrid.count(Collective::all_gather, Phase::forward) == 2 * 3);   // layer, head; ids
static_assert(hybrid.count(Collective::all_to_all, Phase::forward) == 2);       // what was looked up
static_assert(hybrid.count(Collective::all_to_all, Phase::backward) == 2);      // its gradients
static_assert(hybrid.count(Collective::all_gather, Phase::backward) == 2 * 1);  // of the layer alone
static_assert(hybrid.count(Collective::reduce_scatter, Phase::backward) == 2 * 2);
static_assert(hybrid.count(Collective::all_reduce, Phase::optimizer) == 1 + 1);  // and the norm
static_assert(hybrid.count(Collective::all_reduce, Phase::forward) == 2);        // the losses

// Data parallel: gradients are reduced once, however many micro-batches there are.
constexpr auto replicated = step<TrainPlan<0, false>>({1, 1, 4, 1, 1, 1}, 3);
static_assert(replicated.count(Collective::all_reduce, Phase::optimizer) == 1 + 1);
static_assert(replicated.collectives() == 3 + 2);

// A table that is whole on every rank of tp spares, with sharded sequences, a reduce-scatter forward and an all-gather
// backward in each micro-batch. Its gradient is reduced with those of the norms, also with sharded optimizer state.
constexpr auto split_table = step<TrainPlan<1, true>>({1, 1, 2, 1, 1, 2}, 2);
constexpr auto whole_table = step<ReplicatedPlan<1, true>>({1, 1, 2, 1, 1, 2}, 2);
static_assert(split_table.count(Collective::reduce_scatter, Phase::forward) == 2 * (1 + 2) &&
              whole_table.count(Collective::reduce_scatter, Phase::forward) == 2 * 2);
static_assert(whole_table.count(Collective::all_gather, Phase::backward) + 2 ==
              split_table.count(Collective::all_gather, Phase::backward));
static_assert(whole_table.collectives(Phase::forward) + 2 == split_table.collectives(Phase::forward));
static_assert(whole_table.collectives(Phase::backward) + 2 == split_table.collectives(Phase::backward));
static_assert(whole_table.collectives(Phase::optimizer) == split_table.collectives(Phase::optimizer));
constexpr auto whole_table_no_sp = step<ReplicatedPlan<1, false>>({1, 1, 2, 1, 1, 2}, 2);
static_assert(whole_table_no_sp.collectives(Phase::forward) + 2 ==
              step<TrainPlan<1, false>>({1, 1, 2, 1, 1, 2}, 2).collectives(Phase::forward));

// A step that is not wanted. It has few enough tokens for the table's gradient to travel as their rows: two all-gathers.
constexpr auto refused = step<TrainPlan<0, false>, Never>({1, 1, 4, 1, 1, 1}, 1);
static_assert(refused.collectives(Phase::optimizer) == 2 + 2 &&
              refused.peak_bytes(sw::MemoryUse::optimizer_state) == 0);
static_assert(replicated.peak_bytes(sw::MemoryUse::optimizer_state) == 2 * replicated.parameter_bytes());

}  // namespace
}  // namespace tools
