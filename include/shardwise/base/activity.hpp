// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The long-running calls and file work of this process: they are recorded while a thread watches them, such as a
/// `Watchdog`'s or `run`'s.

#include <atomic>

#include <shardwise/base/bodies.hpp>
#include <shardwise/base/mutex.hpp>
#include <shardwise/base/text.hpp>

namespace shardwise::detail {

class Activity;

/// The activities of one kind, on all threads of the process. Activities read no clock: the watching thread looks
/// at intervals and measures how long they last.
struct ActivityBoard {
  struct Entry {
    const char* what = nullptr;  ///< a literal; null: no activity yet
    Index bytes = 0, calls = 0;  ///< of this activity; calls up to now
    char object[200] = "";       ///< the axes, or the file
    bool active = false;
    Index number = 0;              ///< unique for each activity
    double since = 0, latest = 0;  ///< when it became (in)active; when any last began or ended
  };
  /// The oldest active one; else the one that was active last.
  Entry look(double now);

  Mutex mutex;
  Activity* oldest = nullptr;
  Entry last;
  Index changes = 0, seen_changes = 0, seen_number = 0;
};
inline std::atomic<int> activity_watchers{0};
inline constinit ActivityBoard waits_board, files_board;

/// One activity: it lasts as long as this object; `object` must outlive it.
class Activity {
 public:
  Activity(ActivityBoard& board, const char* what, Index bytes, std::string_view object, bool call)
      : board_(activity_watchers.load(std::memory_order_relaxed) > 0 ? &board : nullptr) {
    if (board_) begin(what, bytes, object, call);
  }
  Activity& operator=(Activity&&) = delete;
  ~Activity() {
    if (board_) end();
  }

 private:
  friend ActivityBoard;
  void begin(const char* what, Index bytes, std::string_view object, bool call);
  void end();
  Activity** place_of(const Activity* activity) {
    Activity** place = &board_->oldest;
    while (*place != activity) place = &(*place)->next_;
    return place;
  }
  void write_to(ActivityBoard::Entry& entry) const {
    entry.what = what_, entry.bytes = bytes_, entry.active = true, entry.number = number_;
    entry.object[object_.copy(entry.object, sizeof entry.object - 1)] = 0;
  }

  ActivityBoard* board_;
  const char* what_ = nullptr;
  Index bytes_ = 0, number_ = 0;
  std::string_view object_;
  Activity* next_ = nullptr;
};

/// A call that may wait for other ranks. `call`: it counts as a communication call.
struct Waiting : Activity {
  Waiting(const char* what, Index bytes, std::string_view axes, bool call = true)
      : Activity(waits_board, what, bytes, axes, call) {}
};

/// Work on a file or folder: a verb such as "writes", and the path.
struct FileWork : Activity {
  FileWork(const char* what, std::string_view path) : Activity(files_board, what, 0, path, false) {}
};

#ifdef SHARDWISE_BODIES

SHARDWISE_INLINE void Activity::begin(const char* what, Index bytes, std::string_view object, bool call) {
  what_ = what, bytes_ = bytes, object_ = object;
  const Locked lock(board_->mutex);
  if (call && !board_->oldest) ++board_->last.calls;
  number_ = ++board_->changes;
  *place_of(nullptr) = this;
}

SHARDWISE_INLINE void Activity::end() {
  const Locked lock(board_->mutex);
  *place_of(this) = next_;
  ++board_->changes;
  if (board_->oldest) return;
  write_to(board_->last);
  board_->last.active = false;
  board_->last.number = board_->changes;
}

SHARDWISE_INLINE ActivityBoard::Entry ActivityBoard::look(double now) {
  const Locked lock(mutex);
  Entry entry = last;
  if (oldest) oldest->write_to(entry);
  if (std::exchange(seen_number, entry.number) != entry.number) last.since = now;
  if (std::exchange(seen_changes, changes) != changes) last.latest = now;
  entry.since = last.since, entry.latest = last.latest;
  return entry;
}

#endif

}  // namespace shardwise::detail
