// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Saves checkpoints beside a training run: "FOLDER/step-00001000".
///
/// ```
/// Checkpointer checkpointer(run.ranks(), {.folder = "runs/7", .keep = 3});
/// if (auto last = checkpointer.latest()) load_checkpoint(*last, run);
/// while (step < steps) {
///   …
///   ++step;
///   complain(checkpointer.progress());
///   if (step % 100 == 0) complain(checkpointer.save(step, run));   // the steps go on while it is written
/// }
/// complain(checkpointer.finish());
/// ```

#include <sys/resource.h>

#include <thread>

#include <shardwise/checkpoint/load.hpp>
#include <shardwise/checkpoint/save.hpp>

namespace shardwise {

struct CheckpointerOptions {
  std::filesystem::path folder;  ///< of one run
  /// So many of the last checkpoints stay. At least 2: the last may be of a step that has ruined the weights, which is
  /// known when the next one has been made from them.
  int keep = 3;
  /// Small files that each checkpoint has beside its data, by name, such as a model's tokenizer: those of rank 0.
  std::map<std::string, std::string> texts = {};
  /// The blocks are copied, and written by a thread beside the run. The copy's memory is kept for the next save.
  bool in_background = true;
};

/// All members but `saving` and `set_keep` are collective over `ranks`, those of the contents. A save that fails stops
/// nothing but itself: it returns the reason, the same text on every rank, leaves no file, and removes no other
/// checkpoint.
class Checkpointer {
 public:
  /// Throws `std::invalid_argument` if it would keep fewer than two.
  Checkpointer(Communicator ranks, CheckpointerOptions options)
      : ranks_(std::move(ranks)), options_(std::move(options)) {
    set_keep(options_.keep);
  }
  Checkpointer& operator=(Checkpointer&&) = delete;
  /// A checkpoint that is still being written, and was not finished, is given up.
  ~Checkpointer() {
    join(writer_);
    join(remover_);
  }

  /// Changes how many stay from the next save on. Throws as the constructor does.
  void set_keep(int keep) {
    if (keep < 2) {
      detail::fail(
          {"Checkpointer: keep is ", keep,
           ", which must be 2 or more: the last checkpoint may be of a step that has ruined the weights"});
    }
    options_.keep = keep;
  }

  /// The checkpoint of the most steps, if there is one: the same on every rank. Throws on all ranks:
  /// `DamagedCheckpoint` if it has no manifest, `std::runtime_error` if the folder cannot be read or is a checkpoint.
  std::optional<std::filesystem::path> latest() const {
    Index last[]{-1, 0};  // its step, and whether it is damaged
    on_first("the checkpoints in ", [&] {
      const auto all = checkpoints();
      if (all.empty()) return;
      last[0] = all.back().first;
      last[1] = is_damaged(all.back()) ? 1 : 0;  // no kill leaves it so: see `remove_old`
    });
    const std::vector<Index> found = ranks_.all_gather(last);
    if (found[0] < 0) return std::nullopt;
    if (found[1] == 0) return path_of(found[0]);
    detail::fail<DamagedCheckpoint>({path_of(found[0]).string(), " is damaged: it has no ", manifest_name,
                                     "; remove it, to continue from the one before"});
  }

  /// Renames the last checkpoint, whose load has thrown `DamagedCheckpoint`, to FOLDER.damaged (.damaged-2, if that is
  /// there), unless it is the only one: then `latest` is the one before. Returns whether it did. Throws like `claim`.
  bool set_aside_damaged() {
    claim();
    Index done[]{0};
    on_first("the checkpoints in ", [&] {
      const auto all = checkpoints();
      if (all.size() < 2) return;
      const std::string last = all.back().second.string() + ".damaged";
      std::filesystem::path aside = last;
      for (int i = 2; std::filesystem::exists(aside); ++i) aside = last + "-" + std::to_string(i);
      std::filesystem::rename(all.back().second, aside);
      detail::sync_folder(options_.folder);
      done[0] = 1;
    });
    return ranks_.all_gather(done).front() == 1;
  }

  /// Makes the folder, removes what killed runs left of unfinished checkpoints, and locks the folder until this object
  /// goes: a second run cannot save there. (Some network file systems have no locks: then it is not noticed.) Then each
  /// rank writes a file there as a save does. The first save does all this, if it was not done before. Throws
  /// `std::runtime_error`, on all ranks, which names the file, the reason and the ranks that failed.
  void claim() {
    if (claimed_) return;
    detail::CollectiveWrite work(ranks_, "the folder of checkpoints " + options_.folder.string());
    const std::filesystem::path trial = options_.folder / (std::string(prefix) + "trial");
    std::optional<detail::NewFolder> made;
    std::optional<File> lock;
    const auto end_step = [&] { work.end_step([&] { made.reset(); }); };
    work.on_first([&] {
      std::filesystem::create_directories(options_.folder);
      File folder(options_.folder, O_RDONLY | O_DIRECTORY);
      if (!folder.lock() && errno == EWOULDBLOCK) {
        throw std::runtime_error("another run saves its checkpoints there");
      }
      detail::remove_abandoned(options_.folder, prefix);
      made.emplace(trial, work.token, [](const auto&) {});
      detail::sync_folder(options_.folder);
      lock.emplace(std::move(folder));
    });
    end_step();
    work.on_each([&] {
      const auto folder = detail::temporary_path(detail::whole_path(trial), work.token);
      detail::write_new_file(folder / detail::rank_file_name(ranks_.rank()), "1");
    });
    ranks_.barrier();
    made.reset();
    end_step();
    if (lock) lock_.emplace(std::move(*lock));
    claimed_ = true;
  }

  /// Saves the contents as they are now, after `step` steps. First finishes the save before, if that is under way;
  /// returns what went wrong with it, or, in the foreground, with this one. If the folder has a checkpoint of more
  /// steps, which is then of another run, or of a part of this one that was given up, nothing is saved.
  [[nodiscard]] std::optional<std::string> save(std::int64_t step, const CheckpointContents& contents,
                                                const Json& notes = {}) {
    auto problem = conclude();
    auto begun = attempt([&] {
      prepare(step);
      save_.emplace(contents, path_of(step), options_.in_background ? &copy_ : nullptr, notes,
                    &options_.texts);
    });
    if (begun) {
      save_.reset();
      return problem ? problem : begun;
    }
    written_ = false;
    if (!options_.in_background) {
      save_->write();
      auto failed = conclude();
      return problem ? problem : failed;
    }
    try {
      writer_ = std::thread([this] {
        stand_back();
        save_->write();
        written_ = true;
      });
    } catch (const std::system_error&) {  // there can be no more threads
      save_->write();
      written_ = true;
    }
    return problem;
  }

  /// Is a checkpoint being written?
  bool saving() const { return save_.has_value(); }

  /// Makes the checkpoint whole that is being written, if all ranks have written theirs. Returns what went wrong.
  [[nodiscard]] std::optional<std::string> progress() {
    if (!save_ || !ranks_.agree(written_)) return std::nullopt;
    return conclude();
  }

  /// Waits for the save that is under way, if there is one, and makes it whole; and until those that are not to be kept
  /// are gone. Without it, the last save is given up. Returns what went wrong.
  [[nodiscard]] std::optional<std::string> finish() {
    auto problem = conclude();
    join(remover_);
    return problem;
  }

 private:
  static constexpr std::string_view prefix = "step-";

  static void join(std::thread& thread) {
    if (thread.joinable()) thread.join();
  }
  /// Lets the run go before this thread.
  static void stand_back() { ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), 10); }

  /// An error of rank 0 is one of all: "the checkpoint in FOLDER: …".
  template <class F>
  void on_first(const char* what, F f) const {
    throw_on_all_ranks(ranks_, what + options_.folder.string(), [&] {
      if (ranks_.rank() == 0) f();
    });
  }

  /// For a save after `step` steps. The checkpoints of the most steps stay: if there were later ones, it would go at
  /// once.
  void prepare(std::int64_t step) {
    claim();
    on_first("a checkpoint in ", [&] {
      const auto all = whole_checkpoints();
      if (all.empty() || all.back().first <= step) return;
      detail::fail<std::runtime_error>({all.back().second.filename().string(),
                                        " is there, of more steps than ", step,
                                        ": continue from it, remove it, or save to another folder"});
    });
  }

  /// Waits for the save that is under way, if there is one, and makes it whole.
  std::optional<std::string> conclude() {
    if (!save_) return std::nullopt;
    join(writer_);
    auto problem = attempt([&] { save_->commit(); });
    save_.reset();
    if (problem) return problem;
    return attempt(
        [&] { on_first("a checkpoint is saved, but older ones stay in ", [&] { remove_old(); }); });
  }
  /// The error of `work`, which fails on all ranks or on none.
  template <class F>
  static std::optional<std::string> attempt(F work) {
    try {
      work();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return std::nullopt;
  }

  std::filesystem::path path_of(std::int64_t step) const {
    return options_.folder / (std::string(prefix) + detail::with_digits(8, step));
  }

  using Checkpoints = std::vector<std::pair<std::int64_t, std::filesystem::path>>;

  /// With their steps, in their order.
  Checkpoints checkpoints() const {
    Checkpoints found;
    if (!std::filesystem::exists(options_.folder)) return found;
    if (std::filesystem::exists(options_.folder / manifest_name)) {
      throw std::runtime_error("it is a checkpoint itself: name the folder that it is in");
    }
    for (const auto& entry : std::filesystem::directory_iterator(options_.folder)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with(prefix)) continue;
      std::int64_t step = 0;
      std::from_chars(name.data() + prefix.size(), name.data() + name.size(), step);
      if (entry.path() == path_of(step)) found.emplace_back(step, entry.path());
    }
    std::ranges::sort(found);
    return found;
  }
  static bool is_damaged(const Checkpoints::value_type& each) {
    return !std::filesystem::exists(each.second / manifest_name);
  }
  Checkpoints whole_checkpoints() const {
    Checkpoints found = checkpoints();
    std::erase_if(found, is_damaged);
    return found;
  }

  /// Each is renamed before it is removed: a folder that lacks files is not a checkpoint. A thread removes large files,
  /// which takes a while; if it cannot remove some, the next run does. Those that cannot be renamed stay, and the error
  /// names the first of them.
  void remove_old() {
    const auto all = whole_checkpoints();
    const auto keep = static_cast<std::size_t>(options_.keep);
    std::vector<std::filesystem::path> going;
    std::optional<std::string> problem;
    for (std::size_t i = 0; i + keep < all.size(); ++i) {
      const auto failed = attempt([&] {
        const std::filesystem::path path = detail::temporary_path(all[i].second, detail::temporary_token());
        std::filesystem::rename(all[i].second, path);
        going.push_back(path);
      });
      if (!problem) problem = failed;
    }
    join(remover_);
    remover_ = std::thread([going = std::move(going)] {
      stand_back();
      for (const auto& path : going) detail::remove_folder(path);
    });
    if (problem) throw std::runtime_error(*problem);
  }

  Communicator ranks_;
  CheckpointerOptions options_;
  detail::PageBuffer copy_;                     // of the blocks that are written
  std::optional<detail::CheckpointSave> save_;  // that is under way
  std::thread writer_, remover_;
  std::optional<File> lock_;  // of the folder, on rank 0
  bool claimed_ = false;
  std::atomic<bool> written_ = false;
};

}  // namespace shardwise
