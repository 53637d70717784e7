// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a training run is asked for.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <shardwise/train/rate_schedule.hpp>

#include "step_job.hpp"

namespace tools {

struct TrainOptions {
  StepJob job;
  std::vector<std::filesystem::path> text{"include", "docs"};
  std::vector<std::filesystem::path> data;  ///< files of JSON lines, instead
  std::filesystem::path chat_template;      ///< of dialogues, instead of the model's
  bool match_special_tokens = false;        ///< of texts, prompts and completions
  std::filesystem::path from;               ///< a folder with the model to begin from
  std::filesystem::path tokenizer, cache, log;
  std::filesystem::path export_to, export_best;  ///< the last model, and the best
  std::string format = "safetensors";            ///< of both, or "pytorch"
  bool merge = false;                 ///< both are merged with the adapters, instead of these alone
  double held_out = 0;                ///< the part of the text that is not learned
  std::int64_t evaluate_every = 100;  ///< steps
  bool in_order = false;              ///< no shuffling
  std::int64_t epochs = 0;            ///< instead of steps, if it is not 0
  std::filesystem::path trace;        ///< a file for a trace of the last step
  std::filesystem::path save;         ///< a folder for checkpoints
  bool pad = false;
  std::int64_t steps = 400, save_every = 100;
  std::optional<int> keep;  ///< checkpoints; as many as before, or 3, if not given
  bool resume = false, save_in_foreground = false;
  std::optional<std::int64_t> warmup;  ///< steps; a tenth of all if not given
  sw::Decay decay = sw::Decay::cosine;
  double rate = 3e-3, floor = 0.1, weight_decay = 0.1, max_norm = 1;
  std::array<double, 2> betas{0.9, 0.999};  ///< AdamW's
  double epsilon = 1e-8;
  std::optional<double> first;  ///< the rate that warm-up begins with, as a part of the highest
  std::uint64_t seed = 1;
  double timeout = 600;  ///< seconds, see `sw::Watchdog`
  std::string progress = "plain";

  std::int64_t warmup_steps() const { return warmup.value_or(steps / 10); }
};

/// Trains. Returns the exit code: 0 if what was recorded of the last step is what a dry run has planned, and the last
/// checkpoint, if there are any, is whole; else 1. Of a run that a signal has stopped: `stopped_and_saved` if it can be resumed
/// where it stopped, else 128 and the signal's number.
int train(const TrainOptions& options);
inline constexpr int stopped_and_saved = 75;  ///< EX_TEMPFAIL of sysexits.h

}  // namespace tools
