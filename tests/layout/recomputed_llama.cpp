// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A Llama whose layers are recomputed, on a dry mesh: what is communicated again, and what memory is in use.

#include <doctest/doctest.h>
#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/shardwise.hpp>

namespace shardwise {
namespace {

using namespace shardwise::llm;

using Grid = Mesh<dp, tp>;

/// The figures in docs/learn/llama.md are of these: 8 sequences of 256 tokens.
constexpr Index batch = 8, length = 256, features = 256;
template <class PlanType>
auto step(int ranks, Index layers, bool recomputes) {
  return trace<Grid>({1, ranks}, [&](const Grid& mesh) {
    Llama<Grid, PlanType> model(mesh, {.vocabulary = 32000,
                                       .features = features,
                                       .layers = layers,
                                       .heads = 16,
                                       .kv_heads = 16,
                                       .hidden = 768});
    model.recompute_layers = recomputes;
    const Tensor<std::int32_t, 2, Grid, Shard<0>, Replicate> ids(mesh, {batch, length});
    Tape tape;
    tape.backward(model(tape.constant(ids), ids, LinearCrossEntropyLoss()));
  });
}
constexpr auto all_reduce = Collective::all_reduce, all_gather = Collective::all_gather,
               reduce_scatter = Collective::reduce_scatter;
using TensorPlan = LlamaTensorParallel<>;
using SequencePlan = LlamaSequenceParallel<>;

TEST_CASE("recomputed layers of a Llama: what is communicated, and the peak of memory") {
  // Of a layer's collectives, those of the forward pass come once more, in the backward pass.
  const auto tensor = step<TensorPlan>(2, 2, false), tensor_again = step<TensorPlan>(2, 2, true);
  CHECK(tensor_again.count(all_reduce, Phase::forward) == tensor.count(all_reduce, Phase::forward));
  CHECK(tensor.count(all_reduce, Phase::backward) == 2 * 2 + 1);
  CHECK(tensor_again.count(all_reduce, Phase::backward) == 2 * (2 + 2) + 1);
  CHECK(tensor_again.collectives() == tensor.collectives() + 2 * 2);
  const auto sequence = step<SequencePlan>(2, 2, false), sequence_again = step<SequencePlan>(2, 2, true);
  CHECK(sequence_again.collectives(Phase::forward) == sequence.collectives(Phase::forward));
  CHECK(sequence_again.count(all_gather, Phase::backward) == 2 * (2 + 2) + 1);
  CHECK(sequence_again.count(reduce_scatter, Phase::backward) == 2 * (2 + 2) + 1);
  CHECK(sequence_again.collectives() == sequence.collectives() + 2 * 4);

  // A layer more is one x more.
  constexpr Index activation = batch * length * features * 4;
  constexpr auto growth = [](const auto& more, const auto& fewer) {
    return more.peak_activation_bytes() - fewer.peak_activation_bytes();
  };
  CHECK(growth(step<TensorPlan>(2, 3, true), tensor_again) == activation);
  CHECK(growth(step<SequencePlan>(2, 3, true), sequence_again) == activation / 2);
  const auto alone = step<TensorPlan>(1, 2, false), alone_again = step<TensorPlan>(1, 2, true);
  CHECK(growth(step<TensorPlan>(1, 3, true), alone_again) == activation);

  // The figures in docs/learn/llama.md, in MiB.
  constexpr Index mebibyte = 1 << 20;
  constexpr auto peak = [](const auto& plan) {
    return (plan.peak_activation_bytes() + mebibyte / 2) / mebibyte;
  };
  CHECK(peak(alone) == 86);
  CHECK(peak(alone_again) == 46);
  CHECK(peak(tensor) == 50);
  CHECK(peak(tensor_again) == 27);
  CHECK(peak(sequence) == 54);
  CHECK(peak(sequence_again) == 27);
  CHECK(peak(step<TensorPlan>(1, 16, false)) == 424);
  CHECK(peak(step<TensorPlan>(1, 16, true)) == 74);
  CHECK(peak(step<TensorPlan>(2, 16, false)) == 247);
  CHECK(peak(step<TensorPlan>(2, 16, true)) == 55);
  CHECK(peak(step<SequencePlan>(2, 16, false)) == 279);
  CHECK(peak(step<SequencePlan>(2, 16, true)) == 41);
}

}  // namespace
}  // namespace shardwise
