// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a training step does on one rank, counted on a dry mesh. Which plan is a type, chosen at run time: each
/// combination is compiled (plan_step.cpp), each element type as a translation unit of its own.

#include <array>

#include <shardwise/mesh/communication_plan.hpp>
#include <shardwise/models/llama/config.hpp>

#include "../train_mesh.hpp"

namespace examples {

namespace sw = shardwise;

struct PlanJob {
  sw::LlamaConfig model;                 ///< sequences have `context` tokens
  std::array<int, 4> sizes{1, 1, 1, 1};  ///< replica, dp, tp, kvr
  int zero_level = 3;
  bool sequence_parallel = false, recompute = false, bf16 = false;
  sw::Index batch = 1;  ///< sequences of a step, of all ranks and micro-batches together
  sw::Index micro_batches = 1;
  sw::Index bucket_bytes = sw::Index{8} << 20;
};

struct PlannedStep {
  sw::CommunicationPlan<replica, sw::dp, sw::tp, sw::kvr> plan;
  sw::Index parameters = 0;  ///< of the whole model
};

/// One step of a run that has made steps before, so that the optimizer's state is there from the beginning; on the
/// rank at `coordinates`, with parameters and activations of type T. Throws `std::invalid_argument` for a job that cannot
/// be run.
template <class T>
PlannedStep plan_step(const PlanJob& job, const std::array<int, 4>& coordinates);

}  // namespace examples
