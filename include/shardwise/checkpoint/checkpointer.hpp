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

#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <atomic>
#include <thread>

#include <shardwise/checkpoint/load.hpp>
#include <shardwise/checkpoint/save.hpp>
#include <shardwise/mesh/gather.hpp>

namespace shardwise {

struct CheckpointerOptions {
  std::filesystem::path folder;  ///< of one run
  int keep = 3;                  ///< so many of the last checkpoints stay, at least 1
  /// The blocks are copied, and written by a thread while the run goes on. The copy's memory is kept for the next save.
  bool in_background = true;
};

/// All members but `saving` are collective over `ranks`, those of the contents. A save that fails stops nothing but
/// itself: what went wrong is returned, the same text on every rank, and nothing of it is left.
class Checkpointer {
 public:
  /// Throws `std::invalid_argument` if none is to be kept.
  Checkpointer(Communicator ranks, CheckpointerOptions options)
      : ranks_(std::move(ranks)), options_(std::move(options)) {
    if (options_.keep < 1) {
      detail::fail({"Checkpointer: keep is ", options_.keep, ", which must be 1 or more"});
    }
  }
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;
  /// A checkpoint that is still being written, and was not finished, is given up.
  ~Checkpointer() {
    join(writer_);
    join(remover_);
  }

  /// The checkpoint of the most steps, if there is one: the same on every rank. Throws `std::runtime_error`, on all
  /// ranks, if the folder cannot be examined.
  std::optional<std::filesystem::path> latest() const {
    Index last[]{-1};
    on_first("the checkpoints in ", [&] {
      if (const auto all = checkpoints(); !all.empty()) last[0] = all.back().first;
    });
    const Index step = detail::gather(ranks_, last).front();
    return step < 0 ? std::nullopt : std::optional(path_of(step));
  }

  /// Saves the contents as they are now, after `step` steps. First finishes the save before, if that is under way;
  /// returns what went wrong with it, or, in the foreground, with this one. If the folder has a checkpoint of more
  /// steps, which is then of another run, or of a part of this one that was given up, nothing is saved. The first save
  /// makes the folder, removes what killed runs left of unfinished checkpoints, and locks the folder until this object
  /// goes: a second run cannot save there. (Some network file systems have no locks: then it is not noticed.)
  [[nodiscard]] std::optional<std::string> save(std::int64_t step, const CheckpointContents& contents,
                                                const Json& notes = {}) {
    auto problem = conclude();
    auto begun = attempt([&] {
      prepare(step);
      save_.emplace(contents, path_of(step), options_.in_background ? &copy_ : nullptr, notes);
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

  /// What rank 0 throws, all throw: "the checkpoint in FOLDER: …".
  template <class F>
  void on_first(const char* what, F f) const {
    detail::together(ranks_, what + options_.folder.string(), [&] {
      if (ranks_.rank() == 0) f();
    });
  }

  /// For a save after `step` steps. The checkpoints of the most steps stay: if there were later ones, it would go at
  /// once.
  void prepare(std::int64_t step) {
    on_first("a checkpoint in ", [&] {
      if (!lock_) {
        std::filesystem::create_directories(options_.folder);
        detail::File folder(options_.folder, O_RDONLY | O_DIRECTORY);
        if (::flock(folder.descriptor(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
          throw std::runtime_error("another run saves its checkpoints there");
        }
        lock_.emplace(std::move(folder));
        remove_unfinished();
      }
      const auto all = checkpoints();
      if (all.empty() || all.back().first <= step) return;
      detail::fail<std::runtime_error>({all.back().second.filename().string(),
                                        " is there, of more steps than ", step,
                                        ": go on from it, remove it, or save to another folder"});
    });
  }

  /// Waits for the save that is under way, if there is one, and makes it whole.
  std::optional<std::string> conclude() {
    if (!save_) return std::nullopt;
    join(writer_);
    auto problem = attempt([&] { save_->commit(); });
    save_.reset();
    if (problem) return problem;
    return attempt([&] { on_first("the old checkpoints in ", [&] { remove_old(); }); });
  }

  /// What `work`, which fails on all ranks or on none, throws.
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

  /// Those that are whole, with their steps, in their order.
  std::vector<std::pair<std::int64_t, std::filesystem::path>> checkpoints() const {
    std::vector<std::pair<std::int64_t, std::filesystem::path>> found;
    for (const auto& path : entries()) {
      const std::string number = path.filename().string().substr(prefix.size());
      std::int64_t step = 0;
      std::from_chars(number.data(), number.data() + number.size(), step);
      if (path == path_of(step) && std::filesystem::exists(path / manifest_name))
        found.emplace_back(step, path);
    }
    std::ranges::sort(found);
    return found;
  }
  /// All that begins as a checkpoint's name does.
  std::vector<std::filesystem::path> entries() const {
    std::vector<std::filesystem::path> found;
    if (!std::filesystem::exists(options_.folder)) return found;
    for (const auto& entry : std::filesystem::directory_iterator(options_.folder)) {
      if (entry.path().filename().string().starts_with(prefix)) found.push_back(entry.path());
    }
    return found;
  }

  void remove_unfinished() const {
    for (const auto& path : entries()) {
      if (path.filename().string().find(".tmp-") != std::string::npos) std::filesystem::remove_all(path);
    }
  }
  /// Each is renamed before it is removed: a checkpoint that lacks files is none. To remove large files takes a while,
  /// so a thread does; what it cannot remove is removed when the next run begins.
  void remove_old() {
    const auto all = checkpoints();
    const auto keep = static_cast<std::size_t>(options_.keep);
    std::vector<std::filesystem::path> going;
    for (std::size_t i = 0; i + keep < all.size(); ++i) {
      going.push_back(detail::temporary_path(all[i].second, detail::temporary_token()));
      std::filesystem::rename(all[i].second, going.back());
    }
    join(remover_);
    remover_ = std::thread([going = std::move(going)] {
      stand_back();
      std::error_code ignored;
      for (const auto& path : going) std::filesystem::remove_all(path, ignored);
    });
  }

  Communicator ranks_;
  CheckpointerOptions options_;
  detail::PageBuffer copy_;                     // of the blocks that are written
  std::optional<detail::CheckpointSave> save_;  // that is under way
  std::thread writer_, remover_;
  std::optional<detail::File> lock_;  // of the folder, on rank 0
  std::atomic<bool> written_ = false;
};

}  // namespace shardwise
