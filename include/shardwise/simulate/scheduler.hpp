// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Schedules the ranks of a simulation: each is a thread, one runs at a time, and a seed selects the next one. So a
/// seed reproduces a run exactly, and ranks need no locks.

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <random>

#include <shardwise/base/text.hpp>

namespace shardwise {

/// A simulation has detected an error, or one of its ranks has thrown.
class SimulationError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

namespace detail::simulated {

/// Ends a rank that dies, or that runs after another one has failed.
struct RankEnds {};

/// A thread waits here for its turn. (std::binary_semaphore yields before it sleeps, which is wasteful for long
/// waits: on one core, a simulation of 16 ranks took a quarter more time.)
class Gate {
 public:
  void open() {
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
    }
    opened_.notify_one();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return open_; });
    open_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

class Scheduler {
 public:
  using Ready = std::function<bool()>;
  using Words = std::function<std::string()>;

  Scheduler(int ranks, std::uint64_t seed, std::function<void(int)> resumed)
      : random_(seed), resumed_(std::move(resumed)), ranks_(static_cast<std::size_t>(ranks)) {}

  bool coin() { return (random_() & 1) != 0; }
  bool failed() const { return !failure_.empty(); }
  const std::string& failure() const { return failure_; }

  /// Lets other ranks run first. Throws `RankEnds` if one has failed.
  void turn(int rank) {
    if (!failed()) pass_on(rank);
    if (failed()) throw RankEnds();
  }
  /// Lets other ranks run until `ready`, which must only inspect state, returns true; `words` describe what this
  /// rank waits for. Returns whether it is ready; if not, a rank has failed.
  bool wait(int rank, Ready ready, Words words) {
    State& state = of(rank);
    state.ready = std::move(ready);
    state.words = std::move(words);
    if (!failed()) pass_on(rank);
    const bool is = state.ready();
    state.ready = nullptr;
    return is && !failed();
  }
  /// The same for a rank that polls for completion; if all ranks that could run only poll, that is an error.
  void test(int rank, Words words) {
    of(rank).words = std::move(words);
    of(rank).tests = true;
    if (!failed() && ++tests_in_vain_ > patience * static_cast<long>(ranks_.size())) fail(deadlock());
    turn(rank);
    of(rank).tests = false;
  }
  /// A rank has called or completed something.
  void moves() { tests_in_vain_ = 0; }
  /// Keeps the text of the first failure.
  void fail(std::string words) {
    if (failure_.empty()) failure_ = std::move(words);
  }

  /// Waits for a rank's first turn.
  void begin(int rank) {
    of(rank).go.pass();
    if (resumed_) resumed_(rank);
  }
  /// `why`: empty if the rank ended normally.
  void end(int rank, std::string why) {
    of(rank).ended = true;
    of(rank).why = std::move(why);
    pass_on(rank);
  }
  /// Ranks from this one on do not exist.
  void without(int rank) {
    for (; rank < static_cast<int>(ranks_.size()); ++rank) of(rank).ended = true;
  }
  /// Starts the first rank; returns when all have ended.
  void run() {
    const int first = next();
    if (first < 0) return;
    of(first).go.open();
    all_ended_.pass();
  }

 private:
  struct State {
    Gate go;
    Ready ready;  // none: it can run
    Words words;
    bool tests = false, ended = false;
    std::string why;
  };
  State& of(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  /// The next rank to run; -1: all have ended.
  int next() {
    for (int attempt = 0; attempt < 2; ++attempt) {
      candidates_.clear();
      bool all_ended = true;
      for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
        const State& state = of(rank);
        all_ended = all_ended && state.ended;
        if (!state.ended && (failed() || !state.ready || state.ready())) candidates_.push_back(rank);
      }
      if (all_ended) return -1;
      if (!candidates_.empty()) return candidates_[random_() % candidates_.size()];
      fail(deadlock());  // then all run to their end
    }
    return -1;
  }
  void pass_on(int rank) {
    const int chosen = next();
    if (chosen == rank) return;
    if (chosen < 0) return all_ended_.open();
    of(chosen).go.open();
    if (of(rank).ended) return;
    of(rank).go.pass();
    if (resumed_) resumed_(rank);
  }
  std::string deadlock() {
    std::string words = "no rank can continue:";
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
      const State& state = of(rank);
      words += "\n  rank " + std::to_string(rank) + " ";
      words += state.ended   ? state.why.empty() ? "has come to its end" : state.why
               : state.tests ? "tests " + state.words()
               : state.ready ? "waits in " + state.words()
                             : "could continue";
    }
    return words;
  }

  /// Unsuccessful polls per rank after which a deadlock is reported. Late messages need fewer.
  static constexpr long patience = 10000;

  std::mt19937_64 random_;
  std::function<void(int)> resumed_;
  std::vector<State> ranks_;
  std::vector<int> candidates_;
  std::string failure_;
  long tests_in_vain_ = 0;
  Gate all_ended_;
};

}  // namespace detail::simulated
}  // namespace shardwise
