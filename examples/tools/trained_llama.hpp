// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A Llama that is trained. trained_llama.cpp has its steps, trained_llama_files.cpp its files: the headers that each of
/// them needs cost the other's compilation much.

#include <shardwise/train/adamw.hpp>

#include "train_step.hpp"
#include "trained_model.hpp"

namespace tools {

template <class T, class Plan>
class TrainedLlama final : public TrainedModel {
 public:
  TrainedLlama(const Job& mesh, const StepJob& job, const TrainSettings& settings);

  StepResult make_step(std::int64_t step, double rate, const Load& load) override;
  double evaluate(const Load& load) override;
  sw::Index load_from(const std::filesystem::path& folder) override;
  void add_to(sw::CheckpointContents& contents) override;
  sw::Index export_to(const std::filesystem::path& folder, const sw::LlamaTokens& special) override;
  sw::Index export_adapters(const std::filesystem::path& folder, const std::filesystem::path& base) override;

 private:
  Job mesh_;
  StepOptions options_;
  sw::Pipeline<Job> pipeline_;
  sw::Stages<sw::Llama<Mesh, Plan, T>> stages_;
  sw::AdamW adamw_;
};

}  // namespace tools
