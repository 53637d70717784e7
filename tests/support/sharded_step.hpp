// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A training step of a small Llama, on dry and real meshes, and what it must communicate along the axes of data
/// parallelism, counted independently.

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/shardwise.hpp>

#include <vector>

namespace shardwise::testing {

/// Replicas of groups that shard parameters among them: hybrid sharding.
struct replica {
  static constexpr const char* name = "replica";
  static constexpr bool data = true;
};

/// On meshes whose axes are these.
template <MeshAxis... Axes>
struct SampleLayout;
template <>
struct SampleLayout<dp, tp> {
  template <class MeshType>
  using Ids = Tensor<std::int32_t, 2, MeshType, Shard<0>, Replicate>;
};
template <>
struct SampleLayout<replica, dp, tp> {
  template <class MeshType>
  using Ids = Tensor<std::int32_t, 2, MeshType, Shard<0>, Shard<0>, Replicate>;
};

/// 5 units: tokens, 3 layers, norm and head.
constexpr llm::LlamaConfig small_llama(bool tied) {
  return {.vocabulary = 36,
          .features = 24,
          .layers = 3,
          .heads = 4,
          .kv_heads = 4,
          .head_dim = 6,
          .hidden = 48,
          .tied = tied};
}
inline constexpr int small_units = 5;

struct StepOptions {
  int micro_batches = 1;
  bool tied = false;
  bool recompute = false;
  ReduceOptions reduction{};
};

/// One step. `Axes` as in the mesh.
template <class PlanType, MeshAxis... Axes>
struct ShardedStep {
  StepOptions options;

  template <class MeshType>
  constexpr void operator()(const MeshType& mesh) const {
    using Ids = typename SampleLayout<Axes...>::template Ids<MeshType>;
    llm::Llama<MeshType, PlanType> model(mesh, small_llama(options.tied));
    model.recompute_layers = options.recompute;
    initialize(model, 5);
    ReduceOptions reduction = options.reduction;
    AdamW adamw({}, reduction);
    for (int i = 0; i < options.micro_batches; ++i) {
      Tape tape;
      Ids ids(mesh, {12, 8});
      if (!mesh.dry()) std::fill_n(ids.writable().data, ids.view().elements(), std::int32_t{i});
      auto loss = CrossEntropyLoss()(model(tape.constant(ids)), ids);
      reduction.last = i + 1 == options.micro_batches;
      backward_and_reduce(loss, model, reduction);
    }
    clip_gradients(model, 1.0, 2, reduction);
    adamw.step(model);
  }
};

/// Calls and bytes of one kind in one phase, on exactly these axes.
template <class PlanType>
constexpr Traffic traffic_on(const PlanType& plan, Phase phase, Collective kind, AxisSet axes) {
  return plan.record().traffic[static_cast<std::size_t>(phase)][static_cast<std::size_t>(kind)][axes];
}

}  // namespace shardwise::testing
