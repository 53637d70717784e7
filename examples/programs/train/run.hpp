// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A training run of a Llama on text, except for the model. train_loop.cpp has the loop, trained_model.hpp the model.

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <shardwise/llm/models/llama/config_file.hpp>
#include <shardwise/llm/text/tokenizer.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/train/rate_schedule.hpp>

#include "../common/trained_model.hpp"
#include "best_export.hpp"
#include "progress.hpp"
#include "text_data.hpp"
#include "train_options.hpp"
#include "training_log.hpp"

namespace tools {

/// A path for JSON: absolute, with U+FFFD for invalid UTF-8.
std::string noted(const std::filesystem::path& path);

/// The first forbidden difference between the settings of a resumed run and those of the previous one: "of another
/// run: \"seed\" was 1, and is 2"; or empty.
std::string other_run(const sw::Json& before, const sw::Json& now);
/// The difference of one setting: "\"seed\" was 1, and is 2"; or empty.
std::string change(const char* name, const sw::Json& before, const sw::Json& now);
/// The settings that a resumed run may change.
inline constexpr std::array changeable{"from",       "steps",          "rate",     "rate_schedule", "warmup",
                                       "floor",      "weight_decay",   "betas",    "epsilon",       "clip",
                                       "outer_rate", "outer_momentum", "bias_rate"};

/// The bytes of the memory pool: the most in use at a time, and those taken from the system.
struct PoolBytes {
  sw::Index peak = sw::memory_pool().peak_bytes(), system = sw::memory_pool().system_bytes();
};

/// Everything of a run except its model: mesh, text, learning rate, and output. Collective over the whole job.
class Run {
 public:
  /// Opens the text. A new model gets the tokenizer's vocabulary; epochs are converted to steps.
  explicit Run(TrainOptions options);

  const TrainOptions& options() const { return options_; }
  const StepJob& job() const { return options_.job; }
  const Job& mesh() const { return mesh_; }
  const sw::llm::Tokenizer& tokenizer() const { return tokenizer_; }
  /// The text's fingerprint.
  std::uint64_t fingerprint() const { return fingerprint_; }
  /// The begin and end tokens of texts, for config.json.
  sw::llm::LlamaTokens special_tokens() const;
  bool prints() const { return mesh_.rank() == 0; }
  /// Exports adapters, rather than a model merged with them.
  bool exports_adapters() const { return job().lora_rank > 0 && !options_.merge; }

  /// A new model, or that of `--from`.
  std::unique_ptr<TrainedModel> make_model() const;
  /// Gets the tokens of a step, if they are made while the model trains: before `make_step`. Collective.
  void fetch(std::int64_t step) const { data_->fetch(step); }
  /// Makes step number `step` of a model.
  StepResult make_step(TrainedModel& model, std::int64_t step) const;

  double rate(std::int64_t step) const { return schedule_(step); }
  const TextData& data() const { return *data_; }
  /// Before step number `step`: evaluates the model at intervals, before the first and after the last step, and exports
  /// the best.
  void evaluate(TrainedModel& model, std::int64_t step);
  /// The same after the last step, with a line of its own in the log.
  void evaluate_last(TrainedModel& model, std::int64_t step);
  /// How this replica reaches its group. All replicas have the same `settings`, except paths.
  sw::ReplicaGroupSettings replica_group() const;
  /// Settings by name: those that a resumed run must share with the previous one, and those that it may change.
  sw::Json settings() const;
  /// Adds the place of the next step in a stream to the notes of a checkpoint; and continues there. `from` names the
  /// checkpoint.
  void note_position(sw::Json& notes) const;
  void continue_from(const std::string& from, const sw::Json& notes) const;
  /// The files of the model's tokenizer and dialogues by name, of rank 0. An export and each checkpoint have them beside
  /// the weights. Throws `std::runtime_error` on all ranks, in the name of the task, also if one has more than 256 MiB.
  Texts texts(const char* task) const;
  /// Whether the folder of `--export-best`, if any, has the best model: its last export succeeded.
  bool best_exported() const { return best_exported_; }
  /// Opens the folder of `--export-best`, if any; `resumed`: this run resumed from a checkpoint.
  void open_best(bool resumed);

  void print_job() const;
  /// Checks that memory suffices for a step, and that each rank can write the files due at the end. Throws
  /// `std::runtime_error` on all ranks.
  void check() const;
  /// Opens the log for the steps from this one on.
  void begin(std::int64_t step);
  void tell(std::int64_t step, Progress::Values values, double seconds);
  /// Prints for how long steps have waited for tokens that are made while the model trains.
  void print_waits() const;
  /// Prints the last step's plan next to the recording, and to what the memory pool has counted; returns false if the
  /// communication differs. Collective.
  bool compare(const JobPlan& recorded, const PoolBytes& pool) const;
  /// Writes the file of `--trace`: the logs of all ranks next to their plans, at speeds fitted to the logs. On
  /// failure it prints the problem and returns false on all ranks, so that the model can still be saved.
  bool write_trace(const sw::EventLog& log) const;
  /// Writes the model and the files of its tokenizer, removing an older tokenizer.json; or its adapters.
  void export_to(const std::filesystem::path& folder, TrainedModel& model) const;

 private:
  void open_data();
  Replicas evaluating(const Replicas& replicas) const;
  void open_text(const sw::llm::BatchOptions& batches, const Replicas& replicas);
  void open_stream(sw::llm::BatchOptions batches, const Replicas& replicas);
  void open_documents(const sw::llm::BatchOptions& batches, const Replicas& replicas);
  /// Calls `add` if there is a log, and ends the log if it cannot be written.
  void add_to_log(std::int64_t step, const std::function<void()>& add);
  void check_folder(const std::filesystem::path& folder) const;
  /// Warns of probable mistakes: answers without an end token, special tokens in texts.
  void warn_of(const sw::llm::TrainingDocuments& documents) const;

  TrainOptions options_;
  Job mesh_;
  sw::llm::Tokenizer tokenizer_;
  std::optional<TextData> data_, held_out_;
  std::uint64_t fingerprint_ = 0, validation_fingerprint_ = 0;
  sw::RateSchedule schedule_;
  std::optional<double> held_out_loss_;  // before the next step, if it was evaluated
  std::int64_t begun_ = 0;               // the first step of this run
  double best_loss_ = std::numeric_limits<double>::infinity();
  BestExport best_;
  bool best_exported_ = true;
  std::optional<TrainingLog> log_;
  std::optional<Progress> progress_;
  double waited_ = 0;  // seconds for tokens, of all steps
};

}  // namespace tools
