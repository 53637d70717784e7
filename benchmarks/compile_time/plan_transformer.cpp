// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// user_mlp.cpp, and in it a training step of a transformer of 32 layers, planned inside the compiler.

#include "user_mlp.cpp"

namespace {

using DryMesh = sw::DryMesh<sw::dp, sw::tp>;

/// A step of Llama 7B's dimensions: one sequence a group, heads and features split.
constexpr auto step = sw::trace<DryMesh>({2, 8}, [](const DryMesh& mesh) {
  sw::LanguageModel<DryMesh> model(
      mesh,
      {.vocabulary = 32000, .context = 2048, .features = 4096, .heads = 32, .hidden = 11008, .layers = 32});
  sw::AdamW optimizer;
  sw::Tape tape;
  const auto ids = sw::empty<std::int32_t, sw::Shard<0>, sw::Replicate>(mesh, {2, 2048});
  tape.backward(sw::CrossEntropyLoss()(model(tape.constant(ids)), ids));
  optimizer.step(model);
});

/// Along tp, each block reduces twice forward and twice backward; the embedding adds one forward, the head
/// one backward.
static_assert(step.count<sw::tp>(sw::Collective::all_reduce) == 4 * 32 + 2);
static_assert(step.count(sw::Collective::all_reduce, sw::Phase::backward) == 2 * 32 + 1);
static_assert(step.peak_activation_bytes() < std::int64_t{64} << 30);

}  // namespace
