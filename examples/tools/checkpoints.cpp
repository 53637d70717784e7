// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "checkpoints.hpp"

#include <cstdio>
#include <stdexcept>

#include <shardwise/models/llama/config_file.hpp>

namespace tools {

namespace {

/// What is written beside the weights, of which a resumed run must have the same.
sw::Json notes_of(const Run& run) {
  const TrainOptions& options = run.options();
  const StepJob& job = run.job();
  sw::Json notes{
      {"llama_config", sw::Json::parse(sw::llama_config_text(model_of(job), job.bf16 ? "bfloat16" : "float32",
                                                             run.special_tokens()))},
      {"text", run.fingerprint()},
      {"seed", options.seed},
      {"batch", job.batch},
      {"context", job.model.context},
      {"pad", options.pad},
      {"packed", job.packed},
      {"steps", options.steps},
      {"rate", options.rate},
      {"rate_schedule", sw::name_of(options.decay)},
      {"warmup", options.warmup_steps()},
      {"floor", options.floor},
      {"weight_decay", options.weight_decay},
      {"betas", options.betas},
      {"epsilon", options.epsilon},
      {"clip", options.max_norm}};
  if (options.held_out > 0) notes["held_out"] = options.held_out;
  if (options.in_order) notes["in_order"] = true;
  if (!options.from.empty()) notes["from"] = noted(options.from);
  if (!options.tokenizer.empty()) notes["tokenizer"] = noted(options.tokenizer);
  return notes;
}

}  // namespace

void Checkpoints::begin(TrainedModel& model) {
  contents_.emplace(run_.mesh());
  model.add_to(*contents_);
  contents_->add("step", step_);
  const TrainOptions& options = run_.options();
  checkpointer_.emplace(
      contents_->ranks(),
      sw::CheckpointerOptions{
          .folder = options.save, .keep = options.keep, .in_background = !options.save_in_foreground});
  notes_ = notes_of(run_);
  const auto last = checkpointer_->latest();
  if (last && !options.resume) {
    throw std::runtime_error(last->string() +
                             " is there already: give --resume to go on from it, or another folder");
  }
  checkpointer_->claim();
  if (last) resume_from(*last);
  if (!last && options.resume && run_.prints()) {
    std::printf("there is no checkpoint in %s: beginning anew\n", options.save.c_str());
  }
}

void Checkpoints::resume_from(const std::filesystem::path& last) {
  const sw::LoadedCheckpoint loaded = sw::load_checkpoint(last, *contents_);
  const auto change = [&](const char* name) -> std::string {  // empty if there is none
    const sw::Json& was = loaded.notes.contains(name) ? loaded.notes[name] : sw::Json();
    if (was == notes_[name]) return "";
    return std::string("\"") + name + "\" was " + was.dump() + ", and is " + notes_[name].dump();
  };
  for (const char* name : {"text", "seed", "batch", "context", "pad", "packed", "held_out", "in_order"}) {
    const std::string other = change(name);
    if (!other.empty()) throw std::runtime_error(last.string() + ": of another run: " + other);
  }
  const sw::Json model = loaded.notes.value("llama_config", sw::Json::object());
  for (const auto& [name, is] : notes_["llama_config"].items()) {
    if (name == "torch_dtype" || name == "bos_token_id" || name == "eos_token_id") continue;  // of no step
    const sw::Json was = model.value(name, sw::Json());
    if (was != is) {
      throw std::runtime_error(last.string() + ": of another model: \"" + name + "\" was " + was.dump() +
                               ", and is " + is.dump());
    }
  }
  run_.go_on_with_best(loaded.notes.value("best", sw::Json()));
  if (!run_.prints()) return;
  std::printf("resumed from %s; this rank read %.2f MB\n", last.c_str(),
              static_cast<double>(loaded.bytes_read) * 1e-6);
  for (const char* name : {"from", "steps", "rate", "rate_schedule", "warmup", "floor", "weight_decay",
                           "betas", "epsilon", "clip"}) {
    const std::string other = change(name);
    if (!other.empty()) std::printf("from here on the run is another: %s\n", other.c_str());
  }
}

std::optional<std::string> Checkpoints::save() {
  if (sw::Json best = run_.best(); !best.is_null()) notes_["best"] = std::move(best);
  return checkpointer_->save(step_, *contents_, notes_);
}

bool Checkpoints::after_step(bool ends) {
  if (!checkpointer_) return true;
  bool saved = tell(checkpointer_->progress());
  if (ends || step_ % run_.options().save_every == 0) {
    saved = tell(save());
  }
  if (ends) saved = tell(checkpointer_->finish()) && saved;
  if (!ends || saved) return saved;
  saved = tell(save());  // once more: if the disk was full, there is room now
  return tell(checkpointer_->finish()) && saved;
}

bool Checkpoints::tell(const std::optional<std::string>& problem) const {
  if (problem && run_.prints()) std::fprintf(stderr, "checkpoints: %s\n", problem->c_str());
  return !problem;
}

}  // namespace tools
