// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "checkpoints.hpp"

#include <algorithm>
#include <cstdio>
#include <random>
#include <stdexcept>

#include "../common/step_folders.hpp"

namespace tools {

void Checkpoints::begin(TrainedModel& model) {
  contents_.emplace(run_.mesh());
  model.add_to(*contents_);
  contents_->add("step", step_);
  const TrainOptions& options = run_.options();
  sw::CheckpointerOptions saving{.folder = options.save, .in_background = !options.save_in_foreground};
  saving.keep = options.keep.value_or(saving.keep);
  for (auto& [name, text] : run_.texts("this run")) {  // as they are now
    if (text) saving.texts[name] = std::move(*text);
  }
  checkpointer_.emplace(contents_->ranks(), saving);
  notes_ = run_.settings();
  notes_["keep"] = saving.keep;
  for (bool before = true; before;) {
    before = false;
    try {
      resume();
    } catch (const sw::DamagedCheckpoint& error) {
      if (!options.resume || !checkpointer_->set_aside_damaged()) throw;
      before = true;
      if (!run_.prints()) continue;
      std::fprintf(stderr, "WARNING: the last checkpoint is damaged: %s\n", error.what());
      std::fprintf(
          stderr, "WARNING: it is renamed to ….damaged, and the run resumes from the checkpoint before it\n");
    }
  }
}

void Checkpoints::resume() {
  const TrainOptions& options = run_.options();
  const auto last = checkpointer_->latest();
  if (last && !options.resume) {
    throw std::runtime_error(last->string() +
                             " is there already: give --resume to continue from it, or another folder");
  }
  checkpointer_->claim();
  if (!options.host_memory.empty()) open_memory(options.resume);
  resumed_ = resume_from_memory(last);
  if (!resumed_ && last) resume_from(*last);
  resumed_ = resumed_ || last.has_value();
  if (!resumed_ && options.resume && run_.prints()) {
    std::printf("there is no checkpoint in %s: starting from the beginning\n", options.save.c_str());
  }
}

void Checkpoints::check_run(const std::string& from, const sw::Json& notes) const {
  std::string other = other_run(notes, notes_);
  if (other.empty() && run_.job().lora_rank > 0) other = change("from", notes, notes_);  // adapters are of it
  if (!other.empty()) throw std::runtime_error(from + ": " + other);
}

namespace {

std::int64_t step_in_name(const std::filesystem::path& checkpoint) {
  const std::string name = checkpoint.filename().string();
  return std::stoll(name.substr(name.find('-') + 1));
}

}  // namespace

void Checkpoints::open_memory(bool resumes) {
  const std::filesystem::path file = run_.options().save / ".host-memory";
  const sw::Communicator& ranks = contents_->ranks();
  std::string before, now;
  sw::throw_on_all_ranks(ranks, "--host-memory", [&] {
    if (ranks.rank() != 0) return;
    if (std::filesystem::exists(file)) before = sw::read_text(file.string());
    now = resumes ? before : std::string();
    if (!now.empty()) return;
    std::random_device random;
    now = "run-" + std::to_string(random()) + std::to_string(random());
    sw::write_file_atomically(file.string(), now);
  });
  before = ranks.broadcast(before);
  now = ranks.broadcast(now);
  const std::filesystem::path& folder = run_.options().host_memory;
  if (!before.empty() && before != now) sw::MemoryCheckpoints<2>(ranks, folder / before).clear();
  memory_.emplace(ranks, folder / now);
}

bool Checkpoints::resume_from_memory(const std::optional<std::filesystem::path>& last) {
  const auto newest = memory_ ? memory_->latest() : std::nullopt;
  if (!newest || (last && *newest <= step_in_name(*last))) return false;
  const std::string from = "step " + std::to_string(*newest) + " in the hosts' memory";
  const sw::Json notes = memory_->latest_notes();
  const std::int64_t saved_last = last ? step_in_name(*last) : -1;
  if (notes.value("saved_last", std::int64_t{-1}) > saved_last) {
    if (run_.prints())
      std::fprintf(stderr,
                   "WARNING: %s is not used: it was made after a checkpoint that is not there any more\n",
                   from.c_str());
    return false;
  }
  check_run(from, notes);
  try {
    const sw::LoadedCheckpoint loaded = memory_->load(*contents_);
    if (step_ != *newest) throw std::runtime_error("it is damaged on all hosts that have it");
    run_.continue_from(from, notes);
    print_resumed(from, loaded);
  } catch (const std::runtime_error& error) {
    if (!last) throw;  // the blocks may have changed
    if (run_.prints()) std::fprintf(stderr, "WARNING: %s: %s\n", from.c_str(), error.what());
    return false;
  }
  keep_as_before(notes.value("keep", sw::Json()));
  saved_last_ = saved_last;
  return true;
}

void Checkpoints::resume_from(const std::filesystem::path& last) {
  const sw::LoadedCheckpoint loaded = sw::load_checkpoint(last, *contents_);
  check_run(last.string(), loaded.notes);
  run_.continue_from(last.string(), loaded.notes);
  if (const auto named = step_in_name(last); named != step_) {
    throw std::runtime_error(last.string() + ": its name says step " + std::to_string(named) +
                             ", but it was saved after step " + std::to_string(step_) +
                             ": rename it back to that step, or no later one could be saved");
  }
  keep_as_before(loaded.notes.value("keep", sw::Json()));
  print_resumed(last.string(), loaded);
  saved_last_ = step_;
}

void Checkpoints::print_resumed(const std::string& from, const sw::LoadedCheckpoint& loaded) const {
  if (!run_.prints()) return;
  std::printf("resumed from %s; this rank read %.2f MB\n", from.c_str(),
              static_cast<double>(loaded.bytes_read) * 1e-6);
  for (const char* each : changeable) {
    const std::string now = change(each, loaded.notes, notes_);
    if (!now.empty()) std::printf("settings changed from here on: %s\n", now.c_str());
  }
}

void Checkpoints::keep_as_before(const sw::Json& before) {
  if (!run_.prints()) return;  // rank 0 deletes checkpoints, and writes the notes
  const TrainOptions& options = run_.options();
  int there = 0;
  for (const auto& each : std::filesystem::directory_iterator(options.save)) {
    if (!is_set_aside(each.path())) there += std::filesystem::exists(each.path() / sw::manifest_name) ? 1 : 0;
  }
  int keep = notes_["keep"];
  if (!options.keep) {
    const bool known = before.is_number_integer() && before >= 2 && before <= 1 << 24;
    const int as_before = known ? before.get<int>() : std::max(keep, there);  // older checkpoints lack it
    if (as_before != keep) std::printf("keeping %d checkpoints, as before: --keep changes that\n", as_before);
    notes_["keep"] = keep = as_before;
    checkpointer_->set_keep(keep);
  }
  if (there > keep) {
    std::printf("--keep %d: the next save deletes the oldest of %d checkpoints in %s\n", keep, there,
                options.save.c_str());
  }
}

void Checkpoints::set_aside_ahead() {
  if (!checkpointer_) return;
  sw::throw_on_all_ranks(contents_->ranks(), "checkpoints of more steps than the other replicas have", [&] {
    if (contents_->ranks().rank() != 0) return;
    for (const std::filesystem::path& folder : step_folders(run_.options().save)) {
      if (is_set_aside(folder) || step_in_name(folder) <= step_) continue;
      std::fprintf(stderr,
                   "WARNING: %s has other parameters than the other replicas: it is renamed to ….damaged\n",
                   folder.c_str());
      std::filesystem::path aside = folder.string() + ".damaged";
      for (int i = 2; std::filesystem::exists(aside); ++i)
        aside = folder.string() + ".damaged-" + std::to_string(i);
      std::filesystem::rename(folder, aside);
    }
  });
  if (memory_) memory_->clear();
}

std::optional<std::string> Checkpoints::save() {
  saving_ = step_;
  run_.note_position(notes_);
  return checkpointer_->save(step_, *contents_, notes_);
}

void Checkpoints::save_in_memory() {
  try {
    run_.note_position(notes_);
    sw::Json notes = notes_;
    notes["saved_last"] = saved_last_;
    memory_->save(step_, *contents_, notes);
  } catch (const std::runtime_error& error) {
    tell(error.what());
  }
}

bool Checkpoints::after_step(bool ends) {
  if (!checkpointer_) return true;
  if (memory_ && !ends && step_ % run_.options().host_memory_every == 0) save_in_memory();
  const bool was_saving = checkpointer_->saving();
  bool saved = tell(checkpointer_->progress());
  if (!saved) {
    ++failed_;
  } else if (was_saving && !checkpointer_->saving()) {
    failed_ = 0;
    saved_last_ = saving_;
  }
  if (ends || step_ % run_.options().save_every == 0) {
    const bool follows = checkpointer_->saving();
    saved = tell(save());
    if (!saved) {
      ++failed_;
    } else if (follows || !checkpointer_->saving()) {
      failed_ = 0;
      if (!checkpointer_->saving()) saved_last_ = step_;
    }
  }
  if (!ends) {
    if (failed_ < most_failed) return saved;
    throw std::runtime_error(std::to_string(failed_) + " saves in a row failed, so the run ends after step " +
                             std::to_string(step_) +
                             "; see the errors above, fix the cause, and give --resume");
  }
  saved = tell(checkpointer_->finish()) && saved;
  if (!saved) {
    saved = tell(save());  // retry: the failed save may have been an earlier one
    saved = tell(checkpointer_->finish()) && saved;
  }
  if (memory_ && saved) memory_->clear();
  return saved;
}

bool Checkpoints::tell(const std::optional<std::string>& problem) const {
  if (problem && run_.prints()) std::fprintf(stderr, "checkpoints: %s\n", problem->c_str());
  return !problem;
}

}  // namespace tools
