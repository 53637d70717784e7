// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The options of a training run.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <shardwise/replicas/replica_group.hpp>
#include <shardwise/train/rate_schedule.hpp>

#include "../common/step_job.hpp"

namespace tools {

struct TrainOptions {
  std::string command;  ///< with which the program was started
  StepJob job;
  sw::Index memory = 0;  ///< bytes of a rank, see `within_memory`
  std::vector<std::filesystem::path> text;
  std::vector<std::filesystem::path> data;  ///< files of JSON lines, instead of text
  std::vector<double> mix;                  ///< weights of these paths; none: all are one
  std::filesystem::path chat_template;      ///< for dialogues, instead of the model's
  bool match_special_tokens = false;        ///< in texts, prompts and completions
  std::string long_documents = "refuse";    ///< longer than a row: or "cut", "split"
  std::filesystem::path from;               ///< a folder with the initial model
  std::filesystem::path tokenizer, cache, log;
  std::filesystem::path export_to, export_best;  ///< folders for the last model, and for the best
  std::string format = "safetensors";            ///< of both; or "pytorch"
  bool merge = false;   ///< exports models merged with the adapters, instead of adapters
  double held_out = 0;  ///< the fraction of the text for evaluation
  std::vector<std::filesystem::path> validation;  ///< or files of its own for it
  std::int64_t evaluate_every = 100;              ///< steps
  bool in_order = false;                          ///< no shuffling
  bool stream = false;                            ///< makes tokens while it trains
  std::int64_t epochs = 0;                        ///< instead of steps, unless 0
  std::filesystem::path trace;                    ///< a file for a trace of the last step
  std::filesystem::path save;                     ///< a folder for checkpoints
  bool pad = false;
  std::int64_t steps = 400, save_every = 100;
  std::optional<int> keep;  ///< checkpoints; by default as many as before, or 3
  bool resume = false, save_in_foreground = false;
  std::filesystem::path host_memory;    ///< a folder in each host's memory, for checkpoints
  std::int64_t host_memory_every = 20;  ///< steps
  std::int64_t repeat_every = 0;        ///< steps; 0: none is made twice
  std::filesystem::path fingerprints;   ///< a file for those of steps
  std::int64_t fingerprint_every = 100;
  std::optional<std::int64_t> warmup;  ///< steps; by default a tenth of all
  sw::Decay decay = sw::Decay::cosine;
  double rate = 3e-3, floor = 0.1, weight_decay = 0.1, max_norm = 1;
  std::array<double, 2> betas{0.9, 0.999};  ///< AdamW's
  double epsilon = 1e-8;
  std::optional<double> first;  ///< the initial rate of the warm-up, as a fraction of the highest
  std::uint64_t seed = 1;
  double timeout = 600;              ///< seconds, see `sw::Watchdog`
  sw::ReplicaGroupSettings group{};  ///< of replicas that are jobs of their own
  std::string progress = "plain";

  bool evaluates() const { return held_out > 0 || !validation.empty(); }
  std::int64_t warmup_steps() const { return warmup.value_or(steps / 10); }
};

/// Trains. Returns the exit code: 0 if the recorded communication of the last step matches its plan, and the last
/// checkpoint, if any, is complete; else 1. For a run stopped by a signal: `stopped_and_saved` if it can be resumed
/// where it stopped, else 128 plus the signal's number.
int train(const TrainOptions& options);
inline constexpr int stopped_and_saved = 75;  ///< EX_TEMPFAIL of sysexits.h

}  // namespace tools
