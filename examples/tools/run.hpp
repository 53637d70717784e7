// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A training run of a Llama on text, but for the model. train_loop.cpp has the loop, trained_model.hpp the model.

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/models/llama/config_file.hpp>
#include <shardwise/text/tokenizer.hpp>
#include <shardwise/train/rate_schedule.hpp>

#include "progress.hpp"
#include "text_data.hpp"
#include "train_options.hpp"
#include "trained_model.hpp"
#include "training_log.hpp"

namespace tools {

/// A path as JSON has it, which need not be UTF-8 but for that: absolute, with U+FFFD for what is none.
std::string noted(const std::filesystem::path& path);

/// What a run has but its model: mesh, text, learning rate, and what it tells. Collective over the whole job.
class Run {
 public:
  /// Opens the text. The vocabulary of a new model becomes the tokenizer's; epochs become steps.
  explicit Run(TrainOptions options);

  const TrainOptions& options() const { return options_; }
  const StepJob& job() const { return options_.job; }
  const Job& mesh() const { return mesh_; }
  const sw::Tokenizer& tokenizer() const { return tokenizer_; }
  /// Of the text.
  std::uint64_t fingerprint() const { return fingerprint_; }
  /// Where texts begin and end, for config.json.
  sw::LlamaTokens special_tokens() const;
  bool prints() const { return mesh_.rank() == 0; }
  /// Adapters, and not a model with them.
  bool exports_adapters() const { return job().lora_rank > 0 && !options_.merge; }

  double rate(std::int64_t step) const { return schedule_(step); }
  const TextData& data() const { return *data_; }
  /// Before the step of that number: evaluates the model now and then, and after the last step, and keeps the best.
  void evaluate(TrainedModel& model, std::int64_t step);
  /// What a checkpoint says of the best that was exported; null if there is none.
  sw::Json best() const;
  /// Goes on with that, if it is of the folder that this run exports to, and a model is there.
  void go_on_with_best(const sw::Json& best);

  void print_job() const;
  /// That memory holds a step, and that what is written at the end can be. Throws `std::runtime_error` on all ranks.
  void check() const;
  /// Opens the log, of the steps from this one on.
  void begin(std::int64_t step);
  void tell(std::int64_t step, const Progress::Values& values, double seconds);
  /// Prints the last step's plan beside what was recorded; false if the communication differs.
  bool compare(const JobPlan& recorded) const;
  /// Writes the file of `--trace`: the logs of all ranks beside their plans, at the speeds that fit these. If it cannot, says
  /// so, and false on all ranks: the model is worth more.
  bool write_trace(const sw::EventLog& log) const;
  /// Writes the model, and beside it the files of its tokenizer, where a tokenizer.json of an older model does not stay; or
  /// its adapters.
  void export_to(const std::filesystem::path& folder, TrainedModel& model) const;

 private:
  void open_data();

  TrainOptions options_;
  Job mesh_;
  sw::Tokenizer tokenizer_;
  std::optional<TextData> data_, held_out_;
  std::uint64_t fingerprint_ = 0;
  sw::RateSchedule schedule_;
  std::optional<double> held_out_loss_;  // before the step that is next, if it was evaluated
  double best_ = std::numeric_limits<double>::infinity();
  std::optional<TrainingLog> log_;
  std::optional<Progress> progress_;
};

}  // namespace tools
