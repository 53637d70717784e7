// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A training run of a Llama on text. Which plan and which element type are chosen at run time: each combination is
/// compiled (train_run.cpp), each element type as a translation unit of its own.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <shardwise/kernel/element.hpp>
#include <shardwise/models/llama/config.hpp>
#include <shardwise/train/schedule.hpp>

namespace examples {

namespace sw = shardwise;

struct TrainOptions {
  std::vector<std::filesystem::path> text{"include", "docs"};
  std::filesystem::path tokenizer, cache, export_to, log;
  std::filesystem::path save;  ///< a folder for checkpoints
  sw::LlamaConfig model{.vocabulary = 256,
                        .features = 128,
                        .layers = 4,
                        .heads = 8,
                        .kv_heads = 2,
                        .hidden = 384,
                        .context = 128};
  int replicas = 1, tp = 1;
  std::optional<int> dp;  ///< whatever the ranks leave
  int zero = 0;           ///< level
  bool sequence_parallel = false, recompute = false, bf16 = false, pad = false;
  sw::Index batch = 32, micro_batches = 1, bucket_kib = 8 << 10;
  int in_background = 2;
  std::int64_t steps = 400, save_every = 100;
  int keep = 3;
  bool resume = false, save_in_foreground = false;
  std::optional<std::int64_t> warmup;  ///< steps; a tenth of all if not given
  sw::Decay decay = sw::Decay::cosine;
  double rate = 3e-3, floor = 0.1, weight_decay = 0.1, max_norm = 1;
  std::uint64_t seed = 1;
  std::string progress = "plain";
};

/// Runs it, with parameters and activations of type T. Returns whether what was recorded of the last step is what a dry
/// run has planned, and the last checkpoint, if there are any, is whole. Collective over the whole job.
template <class T>
bool train(const TrainOptions& options);

}  // namespace examples
