// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Ends a job in which a rank waits for others in vain.
///
/// @code
/// const sw::Watchdog watchdog(sw::world(), 600);   // seconds
/// @endcode
///
/// "shardwise: rank 0 of 3: no progress for 600 s: rank 0 waits in all_reduce of 4096 bytes over dp, since 600 s (its call
/// 1402); rank 1 does something else after all_gather of 64 bytes over tp, since 603 s (its call 1401); rank 2 does not answer"

#include <cmath>

#include <shardwise/mesh/communicator.hpp>
#include <shardwise/mesh/environment.hpp>
#include <shardwise/mesh/thread.hpp>

namespace shardwise {

/// As long as it lives, a thread looks at what its rank waits for, a few times a second. Where that takes longer than so many
/// seconds, all ranks are asked what they do, the answers are told, and the job ends with `MPI_Abort`. One a process.
/// It must end before MPI does. (In a simulation it does nothing: that knows by itself.) A rank that asks a `Request` again and
/// again whether it is complete does not wait.
class Watchdog {
 public:
  /// Collective, with the same number on all ranks. 0 seconds: there is none. Throws `std::invalid_argument` for a negative
  /// number, `std::runtime_error` where MPI does not grant MPI_THREAD_MULTIPLE, `std::logic_error` where one is there already.
  Watchdog(const Communicator& ranks, double seconds) : seconds_(seconds) {
    if (!(seconds >= 0)) detail::fail({"Watchdog: ", seconds, " seconds; expected 0 or more"});
    if (seconds == 0 || ranks.size() == 1 || ranks.native() == MPI_COMM_NULL) return;
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_MULTIPLE)
      throw std::runtime_error("Watchdog: MPI does not grant MPI_THREAD_MULTIPLE, which it needs");
    if (board().watched.load()) throw std::logic_error("Watchdog: there is one in this process already");
    detail::check_mpi(MPI_Comm_dup(ranks.native(), &comm_), "MPI_Comm_dup");
    try {
      thread_ = detail::start_thread<&Watchdog::watch>(*this, "Watchdog");
    } catch (...) {
      MPI_Comm_free(&comm_);
      throw;
    }
    board().watched = true;
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog() {
    if (comm_ == MPI_COMM_NULL) return;
    ends_.store(true);
    pthread_join(thread_, nullptr);
    board().watched = false;
    if (!detail::mpi_finalized()) MPI_Comm_free(&comm_);
  }

 private:
  static constexpr int question = 1, answer = 2;      // tags
  static constexpr double pause = 0.2, patience = 2;  // seconds: between two looks, and for answers

  static detail::WaitBoard& board() { return detail::WaitBoard::get(); }

  void watch() {
    double waited = 0, since = 0, last = MPI_Wtime();
    while (!ends_.load() && !detail::mpi_finalized()) {
      detail::sleep_for(std::min(pause, seconds_ / 4));
      answer_questions();
      const auto entry = board().entry();
      const double now = MPI_Wtime();
      if (!entry.waits || std::exchange(since, entry.since) != entry.since) waited = 0;
      waited += std::min(now - std::exchange(last, now), 2 * pause);  // not while the process was suspended
      if (entry.waits && waited > seconds_) raise_alarm();
    }
  }
  /// A status, on one line.
  static std::string status() {
    const auto entry = board().entry();
    if (!entry.what) return "has not communicated yet";
    const std::string bytes = entry.bytes > 0 ? detail::text({" of ", entry.bytes, " bytes"}) : "";
    return detail::text({entry.waits ? "waits in " : "does something else after ", entry.what, bytes,
                         entry.axes[0] ? " over " : "", entry.axes, ", since ",
                         std::llround(MPI_Wtime() - entry.since), " s (its call ", entry.calls, ")"});
  }
  void answer_questions() {
    while (!detail::mpi_finalized()) {
      int asked = 0;
      MPI_Status from;
      MPI_Iprobe(MPI_ANY_SOURCE, question, comm_, &asked, &from);
      if (asked == 0) return;
      MPI_Recv(nullptr, 0, MPI_BYTE, from.MPI_SOURCE, question, comm_, MPI_STATUS_IGNORE);
      answers_.push_back(status());
      MPI_Request sent = MPI_REQUEST_NULL;  // who asks ends the job
      MPI_Isend(answers_.back().data(), static_cast<int>(answers_.back().size()), MPI_CHAR, from.MPI_SOURCE,
                answer, comm_, &sent);
    }
  }
  void raise_alarm() {
    const int rank = detail::rank_in(comm_), size = detail::ranks_in(comm_);
    std::vector<std::string> says(static_cast<std::size_t>(size), "does not answer");
    says[static_cast<std::size_t>(rank)] = status();
    for (int other = 0; other < size; ++other) {
      MPI_Request sent = MPI_REQUEST_NULL;
      if (other != rank) MPI_Isend(nullptr, 0, MPI_BYTE, other, question, comm_, &sent);
    }
    int open = size - 1;
    for (const double begin = MPI_Wtime(); open > 0 && MPI_Wtime() - begin < patience;) {
      detail::sleep_for(0.01);
      answer_questions();
      int there = 0;
      MPI_Status from;
      MPI_Iprobe(MPI_ANY_SOURCE, answer, comm_, &there, &from);
      if (there == 0) continue;
      int length = 0;
      MPI_Get_count(&from, MPI_CHAR, &length);
      std::string text(static_cast<std::size_t>(length), ' ');
      MPI_Recv(text.data(), length, MPI_CHAR, from.MPI_SOURCE, answer, comm_, MPI_STATUS_IGNORE);
      says[static_cast<std::size_t>(from.MPI_SOURCE)] = text;
      --open;
    }
    std::string report = detail::text({"no progress for ", seconds_, " s:"});
    for (int r = 0; r < size; ++r)
      report += (r > 0 ? "; rank " : " rank ") + std::to_string(r) + " " + says[static_cast<std::size_t>(r)];
    detail::end_job(report, 1);
  }

  double seconds_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  pthread_t thread_{};
  std::atomic<bool> ends_{false};
  std::vector<std::string> answers_;  // on their way
};

}  // namespace shardwise
