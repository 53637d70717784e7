// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The meshes and plans of the Llama tests.

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/distribute.hpp>

#include <array>
#include <vector>

#include "outcome.hpp"

namespace shardwise::testing {

/// Samples along dp; heads and features over tp and kvr, key and value heads over tp.
using LlamaMesh = Mesh<dp, tp, kvr>;
using Split = AxisList<tp, kvr>;
using TensorPlan = llm::LlamaTensorParallel<Split>;
using SequencePlan = llm::LlamaSequenceParallel<Split>;

inline LlamaMesh llama_alone() { return LlamaMesh(self(), {1, 1, 1}); }

/// Every mesh of this job that can share out these heads.
inline std::vector<LlamaMesh> llama_meshes(const llm::LlamaConfig& config) {
  const int ranks = world().size();
  std::vector<LlamaMesh> meshes;
  for (int data = 1; data <= ranks; ++data) {
    for (int tensor = 1; ranks % data == 0 && tensor <= ranks / data; ++tensor) {
      const int replicas = ranks / data / tensor;
      if (data * tensor * replicas != ranks || tensor * replicas > config.heads) continue;
      const bool each_its_own = config.heads == config.kv_heads;  // then heads need not be divided evenly
      if (config.kv_heads % tensor != 0 && !(each_its_own && replicas == 1)) continue;
      meshes.emplace_back(world(), LlamaMesh::SizesOf{data, tensor, replicas});
    }
  }
  return meshes;
}

/// Every parameter of a module, whole, in one vector. Collective.
template <class Module>
std::vector<double> weights_of(Module& module) {
  std::vector<double> values;
  for (const detail::ParameterState* cell : detail::parameters_of(module)) {
    const Numbers numbers = whole(cell->stored);
    values.insert(values.end(), numbers.begin(), numbers.end());
  }
  return values;
}

}  // namespace shardwise::testing
