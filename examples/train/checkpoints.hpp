// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The checkpoints of a training run: the model, the optimizer's state, and the number of steps, from which learning
/// rate, batches and all random numbers follow.

#include <cstdio>
#include <optional>

#include <shardwise/data/token_corpus.hpp>
#include <shardwise/io/checkpointer.hpp>
#include <shardwise/io/llama_config_file.hpp>

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
              {"context", options.model.context}};
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
    for (const char* name : {"text", "seed", "batch", "context"}) {
      const sw::Json& was = loaded.notes.contains(name) ? loaded.notes[name] : sw::Json();
      if (was == notes_[name]) continue;
      throw std::runtime_error(last->string() + ": of another run: \"" + name + "\" was " + was.dump() +
                               ", and is " + notes_[name].dump());
    }
    if (prints_) {
      std::printf("resumed from %s; this rank read %.2f MB\n", last->c_str(),
                  static_cast<double>(loaded.bytes_read) * 1e-6);
    }
  }

  /// Saves now and then; and before the run ends, when it also waits until all is written.
  void after_step(bool ends) {
    if (!checkpointer_) return;
    tell(checkpointer_->progress());
    if (ends || step_ % options_.save_every == 0) tell(checkpointer_->save(step_, *run_, notes_));
    if (ends) tell(checkpointer_->finish());
  }

 private:
  /// The run goes on without a checkpoint that could not be written.
  void tell(const std::optional<std::string>& problem) const {
    if (problem && prints_) std::fprintf(stderr, "no checkpoint: %s\n", problem->c_str());
  }

  std::int64_t& step_;
  const TrainOptions& options_;
  bool prints_;
  std::optional<sw::CheckpointContents> run_;
  std::optional<sw::Checkpointer> checkpointer_;
  sw::Json notes_;
};

}  // namespace examples
