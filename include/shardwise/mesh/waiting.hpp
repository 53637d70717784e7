// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a rank waits for, kept while a watchdog wants to know.

#include <atomic>
#include <cstdio>
#include <mutex>

#include <shardwise/layout/index.hpp>
#include <shardwise/mesh/mpi.hpp>

namespace shardwise::detail {

/// Of this rank: shared between its thread and the watchdog's.
class WaitBoard {
 public:
  struct Entry {
    const char* what = nullptr;  ///< a literal; null: it has not communicated yet
    Index bytes = 0;
    char axes[32] = "";
    bool waits = false;
    double since = 0;  ///< of MPI's clock: it waits, or does something else
    Index calls = 0;
  };

  static WaitBoard& get() {
    static WaitBoard board;
    return board;
  }
  std::atomic<bool> watched{false};
  Entry entry() {
    const std::lock_guard lock(mutex_);
    return entry_;
  }
  /// Returns whether it is the outermost that waits. `call`: it is one, which the other ranks make as well.
  bool begin(const char* what, Index bytes, const std::string& axes, bool call) {
    const std::lock_guard lock(mutex_);
    if (entry_.waits) return false;
    entry_.what = what;
    entry_.bytes = bytes;
    std::snprintf(entry_.axes, sizeof(entry_.axes), "%s", axes.c_str());
    entry_.waits = true;
    entry_.since = MPI_Wtime();
    if (call) ++entry_.calls;
    return true;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    entry_.waits = false;
    entry_.since = MPI_Wtime();
  }

 private:
  std::mutex mutex_;
  Entry entry_;
};

/// For the length of a call that may wait.
class Waiting {
 public:
  Waiting(const char* what, Index bytes, const std::string& axes, bool call = true)
      : waits_(WaitBoard::get().watched.load(std::memory_order_relaxed) &&
               WaitBoard::get().begin(what, bytes, axes, call)) {}
  ~Waiting() {
    if (waits_) WaitBoard::get().end();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  bool waits_;
};

}  // namespace shardwise::detail
