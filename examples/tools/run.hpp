// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A training run of a Llama on text, but for the model. train_loop.cpp has the loop, trained_model.hpp the model.

#include <array>
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

#include "best_export.hpp"
#include "progress.hpp"
#include "text_data.hpp"
#include "train_options.hpp"
#include "trained_model.hpp"
#include "training_log.hpp"

namespace tools {

/// A path as JSON has it, which need not be UTF-8 but for that: absolute, with U+FFFD for what is none.
std::string noted(const std::filesystem::path& path);

/// How the settings of a resumed run differ from those of the run before where they must not: "of another run: \"seed\" was 1,
/// and is 2"; else nothing.
std::string other_run(const sw::Json& before, const sw::Json& now);
/// How one setting differs: "\"seed\" was 1, and is 2"; else nothing.
std::string change(const char* name, const sw::Json& before, const sw::Json& now);
/// The settings that a run may change when it goes on.
inline constexpr std::array changeable{"from",  "steps",        "rate",  "rate_schedule", "warmup",
                                       "floor", "weight_decay", "betas", "epsilon",       "clip"};

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
  /// By name: those that a resumed run must have in common with the run before, and those that it may change.
  sw::Json settings() const;
  /// Looks at the folder of `--export-best`, if there is one; `resumed`: this run goes on from a checkpoint.
  void open_best(bool resumed);

  void print_job() const;
  /// That memory holds a step, and that each rank can write what is written at the end. Throws `std::runtime_error` on all
  /// ranks.
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
  void check_folder(const std::filesystem::path& folder) const;
  /// Prints what is probably not meant: answers without an end, special tokens that are text.
  void warn_of(const std::vector<sw::TrainingDocument>& documents) const;

  TrainOptions options_;
  Job mesh_;
  sw::Tokenizer tokenizer_;
  std::optional<TextData> data_, held_out_;
  std::uint64_t fingerprint_ = 0;
  sw::RateSchedule schedule_;
  std::optional<double> held_out_loss_;  // before the step that is next, if it was evaluated
  double best_loss_ = std::numeric_limits<double>::infinity();
  BestExport best_;
  std::optional<TrainingLog> log_;
  std::optional<Progress> progress_;
};

}  // namespace tools
