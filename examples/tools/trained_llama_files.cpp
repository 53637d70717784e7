// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What a training run writes and reads of its model, for one element type, `STEP_TYPE`, and all plans of a set (step_plans.hpp).

#include <shardwise/checkpoint/contents.hpp>
#include <shardwise/models/llama/files.hpp>

#include "step_plans.hpp"
#include "trained_llama.hpp"

namespace tools {

template <class T, class Plan>
sw::Index TrainedLlama<T, Plan>::load_from(const std::filesystem::path& folder) {
  return sw::load_llama(mesh_, stages_, folder);
}

template <class T, class Plan>
void TrainedLlama<T, Plan>::add_to(sw::CheckpointContents& contents) {
  contents.add("model", stages_);
  contents.add("optimizer", adamw_, stages_);
}

template <class T, class Plan>
sw::Index TrainedLlama<T, Plan>::export_to(const std::filesystem::path& folder,
                                           const sw::LlamaTokens& special) {
  return sw::save_llama(mesh_, stages_, folder, {}, special);
}

template <class T, class Plan>
sw::Index TrainedLlama<T, Plan>::export_adapters(const std::filesystem::path& folder,
                                                 const std::filesystem::path& base) {
  if constexpr (std::is_same_v<Plan, AdaptedPlan<8>> || std::is_same_v<Plan, AdaptedPlan<16>>) {
    return sw::save_adapters(stages_.front(), folder,
                             {.name_of = sw::hugging_face_name, .base_model = base.string()});
  } else {
    throw std::logic_error("this model has no adapters");
  }
}

#define TRAINED_LLAMA_FILES(...)                                                                         \
  template sw::Index TrainedLlama<STEP_TYPE, __VA_ARGS__>::load_from(const std::filesystem::path&);      \
  template void TrainedLlama<STEP_TYPE, __VA_ARGS__>::add_to(sw::CheckpointContents&);                   \
  template sw::Index TrainedLlama<STEP_TYPE, __VA_ARGS__>::export_to(const std::filesystem::path&,       \
                                                                     const sw::LlamaTokens&);            \
  template sw::Index TrainedLlama<STEP_TYPE, __VA_ARGS__>::export_adapters(const std::filesystem::path&, \
                                                                           const std::filesystem::path&);
FOR_EACH_PLAN(TRAINED_LLAMA_FILES)

}  // namespace tools
