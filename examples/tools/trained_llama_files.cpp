// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What a training run writes and reads of its model, for one element type, `STEP_TYPE`, and all levels of ZeRO.

#include <shardwise/checkpoint/contents.hpp>
#include <shardwise/models/llama/files.hpp>

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

template <int ZeroLevel, bool Sequence>
using Trained = TrainedLlama<STEP_TYPE, TrainPlan<ZeroLevel, Sequence>>;
#define TRAINED_LLAMA_FILES(level, sequence)                                            \
  template sw::Index Trained<level, sequence>::load_from(const std::filesystem::path&); \
  template void Trained<level, sequence>::add_to(sw::CheckpointContents&);              \
  template sw::Index Trained<level, sequence>::export_to(const std::filesystem::path&,  \
                                                         const sw::LlamaTokens&);
TRAINED_LLAMA_FILES(0, false)
TRAINED_LLAMA_FILES(0, true)
TRAINED_LLAMA_FILES(1, false)
TRAINED_LLAMA_FILES(1, true)
TRAINED_LLAMA_FILES(2, false)
TRAINED_LLAMA_FILES(2, true)
TRAINED_LLAMA_FILES(3, false)
TRAINED_LLAMA_FILES(3, true)

}  // namespace tools
