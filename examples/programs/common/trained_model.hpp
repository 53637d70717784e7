// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The model of a training run and its optimizer, independent of their types: the loop, input and output are
/// compiled once, the model for each element type and set of plans.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <shardwise/llm/data/loaded_batch.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/replicas/replica_group.hpp>

#include "step_job.hpp"

namespace shardwise {
class CheckpointContents;
namespace llm {
struct LlamaTokens;
}
}  // namespace shardwise

namespace tools {

/// The settings of training besides the `StepJob`.
struct TrainSettings {
  double rate = 3e-3, weight_decay = 0.1, max_norm = 1;
  std::array<double, 2> betas{0.9, 0.999};
  double epsilon = 1e-8;
  std::uint64_t seed = 1;
  sw::ReplicaGroupSettings
      group{};  ///< of replicas that are jobs of their own; without a quorum there are none
};

/// Texts of files by name; without a text, a file is removed.
using Texts = std::map<std::string, std::optional<std::string>>;

class TrainedModel {
 public:
  using Load = std::function<sw::llm::LoadedBatch<Mesh>(const Mesh& mesh, sw::Index micro_batch)>;

  virtual ~TrainedModel() = default;

  /// Performs step number `step`; the result of replicas that train alone is their mean. Throws if its loss or its
  /// gradients are not finite.
  virtual StepResult make_step(std::int64_t step, double rate, const Load& load) = 0;

  /// For replicas that are jobs of their own, before the first step: takes the state of those that are ahead.
  virtual void join() = 0;
  /// The steps that were made, if these are other than `step`, as the state is that of another replica.
  virtual std::int64_t steps(std::int64_t step) const = 0;
  /// If set, `make_step` calls it with the fingerprint of this rank's block of each gradient, before the update.
  std::function<void(const std::string& name, std::uint64_t fingerprint)> on_gradient;

  /// Gives `log` the names of the model's modules, see `sw::name_modules`.
  virtual void name_modules(sw::EventLog& log) = 0;
  /// Which rank has which block of its parameters, see `sw::block_tables`; nothing on more than 64 ranks.
  virtual std::string blocks() = 0;

  /// The sum of the losses of a step's targets, or of a replica's if replicas train alone.
  virtual double evaluate(const Load& load) = 0;

  /// Loads the weights of a folder in Hugging Face's format; returns the bytes that this rank read.
  virtual sw::Index load_from(const std::filesystem::path& folder) = 0;
  /// Adds "model" and "optimizer"; and if replicas train alone, "outer" and those two of each other one.
  virtual void add_to(sw::CheckpointContents& contents) = 0;
  /// The bytes of these that this rank saves: if several ranks have a block, each saves a part of its rows. Creates the
  /// state of the optimizer if there is none.
  virtual sw::Index saved_bytes() = 0;
  /// Saves the model in Hugging Face's format, merged with its adapters if it has any, and the texts beside it;
  /// returns the bytes that this rank wrote.
  virtual sw::Index export_to(const std::filesystem::path& folder, const sw::llm::LlamaTokens& special,
                              const Texts& beside) = 0;
  /// Saves its adapters in PEFT's format; `base` is the folder of their base model. Throws `std::logic_error` if
  /// there are no adapters.
  virtual sw::Index export_adapters(const std::filesystem::path& folder,
                                    const std::filesystem::path& base) = 0;
};

/// A new model, with the element type and the plan of `job`.
std::unique_ptr<TrainedModel> make_trained_model(const Job& mesh, const StepJob& job,
                                                 const TrainSettings& settings);
/// The same for elements of type T and a plan of the set.
template <class T, PlanSet Set>
std::unique_ptr<TrainedModel> make_trained_model(const Job& mesh, const StepJob& job,
                                                 const TrainSettings& settings);

}  // namespace tools
