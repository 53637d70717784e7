// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The mesh, the plans and the training step of the Llama example, and what a step communicates: asserted when
/// the example is compiled.

#include <shardwise/shardwise.hpp>

namespace examples {

namespace sw = shardwise;

/// Groups of ranks along dp work on sequences of their own. Within a group heads and features are split, over
/// tp and kvr; key and value heads over tp alone, if there are fewer of them than ranks.
template <template <class...> class MeshKind>
using LlamaMesh = MeshKind<sw::dp, sw::tp, sw::kvr>;
using Split = sw::AxisList<sw::tp, sw::kvr>;
using TensorParallel = sw::LlamaTensorParallel<Split>;
using SequenceParallel = sw::LlamaSequenceParallel<Split>;

/// Token ids [sequences, length]; each group has its own sequences.
template <class MeshType>
using Ids = sw::Tensor<std::int32_t, 2, MeshType, sw::Shard<0>, sw::Replicate, sw::Replicate>;

/// One step: the loss is the mean over the global batch, and the gradients' norm is at most `max_norm`.
/// Returns the loss, and the norm before clipping.
template <class Model, class MeshType>
constexpr auto train_step(Model& model, sw::AdamW& optimizer, double max_norm, const Ids<MeshType>& inputs,
                          const Ids<MeshType>& targets) {
  sw::Tape tape;
  auto loss = sw::CrossEntropyLoss()(model(tape.constant(inputs)), targets);
  tape.backward(loss);
  const double norm = sw::clip_gradients(model, max_norm);
  optimizer.step(model);
  return std::pair(loss.value(), norm);
}

/// What one step does, counted on a dry mesh of sizes dp, tp, kvr.
template <class PlanType>
constexpr auto planned_step(const std::array<int, 3>& sizes, const sw::LlamaConfig& config, sw::Index batch,
                            sw::Index length, const std::array<int, 3>& coordinates = {}) {
  using MeshType = LlamaMesh<sw::DryMesh>;
  auto step = [&](const MeshType& mesh) {
    sw::Llama<MeshType, PlanType> model(mesh, config);
    sw::AdamW optimizer;
    const Ids<MeshType> inputs(mesh, {batch, length}), targets(mesh, {batch, length});
    train_step(model, optimizer, 1, inputs, targets);
  };
  return sw::trace<MeshType>(sizes, step, coordinates);
}

namespace asserted {

using sw::Collective, sw::Phase;

/// Two layers, as in PyTorch's example of FSDP with tensor parallelism.
inline constexpr sw::LlamaConfig config{
    .vocabulary = 32000, .features = 256, .layers = 2, .heads = 16, .kv_heads = 16, .hidden = 768};
inline constexpr sw::Index batch = 8, length = 256;
/// A float per feature of each token; a maximum, a sum and a logit per token; one number for the norm.
inline constexpr sw::Index activation = batch * length * 256 * 4, losses = batch * length * 3 * 4, number = 8;

// Tensor parallel on two ranks: each layer all-reduces twice forward and twice backward; beside them there are
// the embedding and the loss forward, the head backward, and the norm of the gradients.
inline constexpr auto tensor = planned_step<TensorParallel>({1, 2, 1}, config, batch, length);
static_assert(tensor.count(Collective::all_reduce, Phase::forward) == 2 * 2 + 2);
static_assert(tensor.count(Collective::all_reduce, Phase::backward) == 2 * 2 + 1);
static_assert(tensor.count(Collective::all_reduce, Phase::optimizer) == 1);
static_assert(tensor.collectives() == 12);
static_assert(tensor.bytes() == (5 + 5) * activation + losses + number);

// And sequence parallel: each of these all-reduces but the loss's is now a reduce-scatter and an all-gather of
// the same tensor, one of the two in each direction; and the gradients of all norms are reduced together.
inline constexpr auto sequence = planned_step<SequenceParallel>({1, 2, 1}, config, batch, length);
static_assert(sequence.count(Collective::all_gather, Phase::forward) == 2 * 2 + 1);
static_assert(sequence.count(Collective::reduce_scatter, Phase::forward) == 2 * 2 + 1);
static_assert(sequence.count(Collective::all_gather, Phase::backward) == 2 * 2 + 1);
static_assert(sequence.count(Collective::reduce_scatter, Phase::backward) == 2 * 2 + 1);
static_assert(sequence.count(Collective::all_reduce, Phase::forward) == 1);
static_assert(sequence.count(Collective::all_reduce, Phase::optimizer) == 1 + 1);
static_assert(sequence.collectives() == 4 * 5 + 3);
static_assert(sequence.bytes(Phase::forward) == 2 * 5 * activation + losses);
static_assert(sequence.bytes(Phase::backward) == 2 * 5 * activation);
static_assert(sequence.bytes(Phase::optimizer) == 5 * 256 * 4 + number);

// Four ranks share two key/value heads: the projections' gradients are reduced between the two ranks that have
// the same head, all together.
inline constexpr sw::LlamaConfig grouped{
    .vocabulary = 32000, .features = 256, .layers = 2, .heads = 16, .kv_heads = 2, .hidden = 768};
inline constexpr auto replicas = planned_step<TensorParallel>({1, 2, 2}, grouped, batch, length);
static_assert(replicas.count(Collective::all_reduce, Phase::forward) == 2 * 2 + 2);
static_assert(replicas.count(Collective::all_reduce, Phase::backward) == 2 * 2 + 1);
static_assert(replicas.count(Collective::all_reduce, Phase::optimizer) == 1 + 1);

}  // namespace asserted

}  // namespace examples
