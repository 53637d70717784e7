// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The checkpoints of a training run: the model, the optimizer's state, and the number of steps, from which learning
/// rate, batches and all random numbers follow.

#include <cstdio>
#include <optional>

#include <shardwise/checkpoint/checkpointer.hpp>
#include <shardwise/data/token_corpus.hpp>
#include <shardwise/models/llama/config_file.hpp>

#include "../save_model.hpp"
#include "train_run.hpp"

namespace examples {

class Checkpoints {
 public:
  /// `step` is the number of steps that were made. Without a folder, nothing is saved. Throws `std::runtime_error` if a
  /// run that is not resumed would mix its checkpoints with those of another.
  template <class MeshType, class Model, class Optimizer>
  Checkpoints(const MeshType& mesh, Model& model, Optimizer& optimizer, std::int64_t& step,
              const TrainOptions& options, const sw::TokenCorpus& text, const sw::Tokenizer& tokenizer)
      : step_(step), options_(options), prints_(mesh.rank() == 0) {
    if (options.save.empty()) return;
    run_.emplace(mesh);
    run_->add("model", model);
    run_->add("optimizer", optimizer, model);
    run_->add("step", step);
    checkpointer_.emplace(
        run_->ranks(),
        sw::CheckpointerOptions{
            .folder = options.save, .keep = options.keep, .in_background = !options.save_in_foreground});
    if (const auto last = checkpointer_->latest(); last && !options.resume) {
      throw std::runtime_error(last->string() +
                               " is there already: give --resume to go on from it, or another folder");
    }
    notes_ = {{"llama_config",
               sw::Json::parse(sw::llama_config_text(model.config(), options.bf16 ? "bfloat16" : "float32",
                                                     special_tokens(tokenizer)))},
              {"text", text.fingerprint()},
              {"seed", options.seed},
              {"batch", options.batch},
              {"context", options.model.context},
              {"pad", options.pad},
              {"steps", options.steps},
              {"rate", options.rate},
              {"schedule", sw::name_of(options.decay)},
              {"warmup", options.warmup.value_or(options.steps / 10)},
              {"floor", options.floor},
              {"weight_decay", options.weight_decay},
              {"clip", options.max_norm}};
    if (!options.tokenizer.empty()) {
      notes_["tokenizer"] = std::filesystem::absolute(options.tokenizer).string();
    }
  }

  /// Goes on from the last checkpoint, if there is one. Throws `std::runtime_error` if that is of another run.
  void resume() {
    const auto last = checkpointer_->latest();
    if (!last) {
      if (prints_) std::printf("there is no checkpoint in %s: beginning anew\n", options_.save.c_str());
      return;
    }
    const sw::LoadedCheckpoint loaded = sw::load_checkpoint(*last, *run_);
    const auto change = [&](const char* name) -> std::string {  // empty if there is none
      const sw::Json& was = loaded.notes.contains(name) ? loaded.notes[name] : sw::Json();
      if (was == notes_[name]) return "";
      return std::string("\"") + name + "\" was " + was.dump() + ", and is " + notes_[name].dump();
    };
    for (const char* name : {"text", "seed", "batch", "context", "pad"}) {
      const std::string other = change(name);
      if (!other.empty()) throw std::runtime_error(last->string() + ": of another run: " + other);
    }
    if (prints_) {
      std::printf("resumed from %s; this rank read %.2f MB\n", last->c_str(),
                  static_cast<double>(loaded.bytes_read) * 1e-6);
    }
    for (const char* name : {"steps", "rate", "schedule", "warmup", "floor", "weight_decay", "clip"}) {
      const std::string other = change(name);
      if (prints_ && !other.empty()) std::printf("from here on the run is another: %s\n", other.c_str());
    }
  }

  /// Saves now and then; and before the run ends, when it also waits until all is written. Returns whether nothing is
  /// lost if the run ends here.
  bool after_step(bool ends) {
    if (!checkpointer_) return true;
    bool saved = tell(checkpointer_->progress());
    if (ends || step_ % options_.save_every == 0) saved = tell(checkpointer_->save(step_, *run_, notes_));
    if (ends) saved = tell(checkpointer_->finish()) && saved;
    return saved;
  }

 private:
  /// The run goes on without a checkpoint that could not be written.
  bool tell(const std::optional<std::string>& problem) const {
    if (problem && prints_) std::fprintf(stderr, "no checkpoint: %s\n", problem->c_str());
    return !problem;
  }

  std::int64_t& step_;
  const TrainOptions& options_;
  bool prints_;
  std::optional<sw::CheckpointContents> run_;
  std::optional<sw::Checkpointer> checkpointer_;
  sw::Json notes_;
};

}  // namespace examples
