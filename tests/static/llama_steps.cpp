// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What a training step of a Llama communicates, in calls and bytes, as docs/learn/llama.md says: of two layers, as in
/// PyTorch's example of FSDP with tensor parallelism.

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/shardwise.hpp>

namespace shardwise {
namespace {

using namespace shardwise::llm;

using Split = AxisList<tp, kvr>;

constexpr LlamaConfig config{
    .vocabulary = 32000, .features = 256, .layers = 2, .heads = 16, .kv_heads = 16, .hidden = 768};
constexpr Index batch = 8, length = 256;

/// The loss is the mean over the batch, and gradients are clipped.
template <class PlanType>
constexpr auto step(const std::array<int, 3>& sizes, const LlamaConfig& model_config) {
  using Mesh = Mesh<dp, tp, kvr>;
  return trace<Mesh>(sizes, [&](const Mesh& mesh) {
    Llama<Mesh, PlanType> model(mesh, model_config);
    AdamW adamw;
    const Tensor<std::int32_t, 2, Mesh, Shard<0>, Replicate, Replicate> ids(mesh, {batch, length});
    Tape tape;
    auto loss = CrossEntropyLoss()(model(tape.constant(ids)), ids);
    tape.backward(loss);
    clip_gradients(model, 1);
    adamw.step(model);
  });
}

/// A float per feature of each token; a maximum, a sum and a logit per token; one number for the norm.
constexpr Index activation = batch * length * 256 * 4, losses = batch * length * 3 * 4, number = 8;

// Tensor parallel on two ranks: each layer all-reduces twice forward and twice backward; beside them there are
// the embedding and the loss forward, the head backward, and the norm of the gradients.
constexpr auto tensor = step<LlamaTensorParallel<Split>>({1, 2, 1}, config);
static_assert(tensor.count(Collective::all_reduce, Phase::forward) == 2 * 2 + 2);
static_assert(tensor.count(Collective::all_reduce, Phase::backward) == 2 * 2 + 1);
static_assert(tensor.count(Collective::all_reduce, Phase::optimizer) == 1);
static_assert(tensor.collectives() == 12);
static_assert(tensor.bytes() == (5 + 5) * activation + losses + number);

// And sequence parallel: each of these all-reduces but the loss's is now a reduce-scatter and an all-gather of
// the same tensor, one of the two in each direction; and the gradients of all norms are reduced together.
constexpr auto sequence = step<LlamaSequenceParallel<Split>>({1, 2, 1}, config);
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

// Column-parallel everywhere: input and result of two layers are gathered. Backward, only the gradients of the inputs
// are sums: two are needed whole, two are needed as sharded as the inputs were.
constexpr auto columns = step<LlamaColwiseParallel<Split>>({1, 2, 1}, config);
static_assert(columns.count(Collective::all_gather, Phase::forward) == 2 * 4);
static_assert(columns.count(Collective::all_reduce, Phase::forward) == 2);
static_assert(columns.count(Collective::reduce_scatter, Phase::backward) == 2 * 2);
static_assert(columns.count(Collective::all_reduce, Phase::backward) == 2 * 2 + 1);
static_assert(columns.collectives() == 20 && wasted(columns).empty());

// Four ranks share two key/value heads: the projections' gradients are reduced between the two ranks that have
// the same head, all together.
constexpr LlamaConfig grouped{
    .vocabulary = 32000, .features = 256, .layers = 2, .heads = 16, .kv_heads = 2, .hidden = 768};
constexpr auto replicas = step<LlamaTensorParallel<Split>>({1, 2, 2}, grouped);
static_assert(replicas.count(Collective::all_reduce, Phase::forward) == 2 * 2 + 2);
static_assert(replicas.count(Collective::all_reduce, Phase::backward) == 2 * 2 + 1);
static_assert(replicas.count(Collective::all_reduce, Phase::optimizer) == 1 + 1);

// None sends more than it must. But if a plan gathers the input of attention to `Replicate`, its gradient is all-reduced
// in each layer, and each rank keeps a part of the sequence.
static_assert(wasted(tensor).empty() && wasted(sequence).empty() && wasted(replicas).empty());
template <class P>
using Gathered =
    PlanAnd<LlamaSequenceParallel<Split>, Use<"layers.*.attention", PrepareModuleInput<Split, P>>>;
static_assert(wasted(step<Gathered<Reduced>>({1, 2, 1}, config)).empty());
constexpr auto gathered = step<Gathered<Replicate>>({1, 2, 1}, config);
constexpr Waste waste = wasted(gathered)[0];
static_assert(wasted(gathered).size() == 1 && waste.kind == Waste::summed_whole && waste.calls == 2);
static_assert(waste.bytes == 2 * activation / 2);
static_assert(waste.bytes == gathered.received_bytes() - sequence.received_bytes());

}  // namespace
}  // namespace shardwise
