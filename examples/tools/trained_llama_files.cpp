// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What a training run writes and reads of its model, for one element type, `STEP_TYPE`, and all plans of a set,
/// `STEP_SET` (step_plans.hpp).

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

template <std::size_t Place>
using PlanAt = std::tuple_element_t<Place, PlansOf<PlanSet::STEP_SET>::Types>;
#define TRAINED_LLAMA_FILES(place)                                                                         \
  template sw::Index TrainedLlama<STEP_TYPE, PlanAt<place>>::load_from(const std::filesystem::path&);      \
  template void TrainedLlama<STEP_TYPE, PlanAt<place>>::add_to(sw::CheckpointContents&);                   \
  template sw::Index TrainedLlama<STEP_TYPE, PlanAt<place>>::export_to(const std::filesystem::path&,       \
                                                                       const sw::LlamaTokens&);            \
  template sw::Index TrainedLlama<STEP_TYPE, PlanAt<place>>::export_adapters(const std::filesystem::path&, \
                                                                             const std::filesystem::path&);
static_assert(std::tuple_size_v<PlansOf<PlanSet::STEP_SET>::Types> == 6);
TRAINED_LLAMA_FILES(0)
TRAINED_LLAMA_FILES(1)
TRAINED_LLAMA_FILES(2)
TRAINED_LLAMA_FILES(3)
TRAINED_LLAMA_FILES(4)
TRAINED_LLAMA_FILES(5)

}  // namespace tools
