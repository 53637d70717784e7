// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The plan of whole training steps of the language model: dry, recorded and seen by MPI are the same.

#include <shardwise/nn/cross_entropy_loss.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/sgd.hpp>
#include <support/plans.hpp>
#include "support/gpt.hpp"

#include <cstdint>

namespace shardwise::testing::plan_model {
namespace sw = shardwise;
using sw::Collective;
using sw::dp;
using sw::Index;
using sw::MemoryUse;
using sw::Replicate;
using sw::Shard;
using sw::tp;

namespace {

constexpr GptConfig config{
    .vocabulary = 13, .context = 6, .features = 10, .heads = 5, .hidden = 14, .layers = 2};

template <class Update>
auto training_steps(Update update, Index batch, int steps) {
  return [=](const auto& mesh) {
    using MeshType = std::remove_cvref_t<decltype(mesh)>;
    Gpt<MeshType> model(mesh, config);
    sw::initialize(model, 1);
    sw::Optimizer optimizer(update);
    for (int step = 0; step < steps; ++step) {
      sw::Tensor<std::int32_t, 2, MeshType, Shard<0>, Replicate> ids(mesh, {batch, config.context});
      if (!mesh.dry()) {
        auto block = ids.writable();
        for (Index i = 0; i < block.elements(); ++i)
          block.data[i] = static_cast<std::int32_t>((i * 5 + step) % 13);
      }
      sw::Tape tape;
      tape.backward(sw::CrossEntropyLoss()(model(tape.constant(ids)), ids));
      optimizer.step(model);
    }
  };
}

template <class PlanType>
void check_counts(const PlanType& plan, int steps) {
  const int on_tp = plan.sizes()[1] > 1 ? steps : 0, on_dp = plan.sizes()[0] > 1 ? steps : 0;
  // Forward: the vocabulary's embedding and two in each block; the loss over dp. Backward: two in each block
  // and the head's. The gradients on dp wait for the optimizer, which reduces them together.
  CHECK(plan.count(Collective::all_reduce, sw::Phase::forward) == 5 * on_tp + on_dp);
  CHECK(plan.count(Collective::all_reduce, sw::Phase::backward) == 5 * on_tp);
  CHECK(plan.count(Collective::all_reduce, sw::Phase::optimizer) == on_dp);
  CHECK(plan.template count<tp>(Collective::all_reduce) == 10 * on_tp);
  CHECK(calls(plan, Collective::all_gather) == std::to_string(on_tp) + " / 0 / 0");  // the logits
  CHECK(plan.collectives() == plan.count(Collective::all_reduce) + plan.count(Collective::all_gather));
}

}  // namespace

TEST_CASE("a training step with SGD") {
  for (const auto& mesh : data_by_tensor_meshes()) {
    check_counts(agreed_plan(mesh, training_steps(sw::SgdUpdate{.rate = 0.1}, 5, 1)), 1);
  }
}

TEST_CASE("two training steps with AdamW, whose state is made in the first") {
  for (const auto& mesh : data_by_tensor_meshes()) {
    auto plan = agreed_plan(mesh, training_steps(sw::AdamWUpdate(), 4, 2));
    check_counts(plan, 2);
    CHECK(plan.peak_bytes(MemoryUse::optimizer_state) == 2 * plan.parameter_bytes());
    CHECK(plan.peak_bytes(MemoryUse::gradient) == plan.parameter_bytes());
    // The bucket is as large as all gradients are.
    CHECK(plan.peak_bytes(MemoryUse::gathered) == (mesh.size<dp>() > 1 ? plan.parameter_bytes() : 0));
  }
}

}  // namespace shardwise::testing::plan_model
