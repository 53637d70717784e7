// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Ends a job in which a rank waits for other ranks without progress.
///
/// @code
/// const sw::Watchdog watchdog(sw::world(), 600);   // seconds
/// @endcode
///
/// "shardwise: rank 0 of 3: no progress for 600 s: rank 0 waits in all_reduce of 4096 bytes over dp, since 600 s
/// (its call 1402); rank 1 does something else after all_gather of 64 bytes over tp, since 603 s (its call 1401);
/// rank 2 does not answer"
///
/// A rank that reads or writes files makes progress, so ranks that wait for it keep waiting, unless a single system
/// call (a flush, or a write of 16 MiB) takes longer than ten times the limit. Then the report names the file.

#include <list>

#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/environment.hpp>
#include <shardwise/comm/thread.hpp>

namespace shardwise {

/// A thread checks a few times a second whether its rank waits. If one wait exceeds the limit, it asks all ranks for
/// their state; unless one of them works on a file, it ends the job with `MPI_Abort` and the exit code
/// `no_answer_code`. There can be one per process, and it must be destroyed before MPI ends. (A simulation detects
/// deadlocks itself, so there it does nothing.) A rank that polls a `Request` with `test` does not count as waiting.
class Watchdog {
 public:
  /// Collective, with the same limit on all ranks. 0 seconds: no watchdog. Throws `std::invalid_argument` for a
  /// negative limit, `std::runtime_error` if MPI does not grant MPI_THREAD_MULTIPLE, `std::logic_error` if there is
  /// a watchdog already.
  Watchdog(const Communicator& ranks, double seconds) : seconds_(seconds) {
    if (!(seconds >= 0)) detail::fail({"Watchdog: ", seconds, " seconds; expected 0 or more"});
    if (seconds == 0 || ranks.size() == 1 || ranks.native() == MPI_COMM_NULL) return;
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_MULTIPLE)
      throw std::runtime_error("Watchdog: MPI does not grant MPI_THREAD_MULTIPLE, which it needs");
    if (watched.load()) throw std::logic_error("Watchdog: there is one in this process already");
    detail::check_mpi(MPI_Comm_dup(ranks.native(), &comm_), "MPI_Comm_dup");
    try {
      thread_ = detail::start_thread<&Watchdog::watch>(*this, "Watchdog");
    } catch (...) {
      MPI_Comm_free(&comm_);
      throw;
    }
    watched = true;
    ++detail::activity_watchers;
  }
  Watchdog& operator=(Watchdog&&) = delete;
  ~Watchdog() {
    if (comm_ == MPI_COMM_NULL) return;
    ends_.store(true);
    pthread_join(thread_, nullptr);
    --detail::activity_watchers;
    watched = false;
    if (!detail::mpi_finalized()) MPI_Comm_free(&comm_);
  }

 private:
  static constexpr int question = 1, answer = 2;      // tags
  static constexpr double pause = 0.2, patience = 2;  // seconds: between two checks, and for answers
  static constexpr double longest_file_call = 10;     // in limits
  static constexpr char works = 'f', is_idle = '-';   // an answer's first letter: whether it works on a file

  static inline std::atomic<bool> watched{false};

  void watch() {
    double waited = 0, last = MPI_Wtime();
    Index number = 0;
    while (!ends_.load() && !detail::mpi_finalized()) {
      detail::sleep_for(std::min(pause, seconds_ / 4));
      answer_questions();
      const double now = MPI_Wtime();
      detail::files_board.look(now);
      const auto entry = detail::waits_board.look(now);
      if (!entry.active || std::exchange(number, entry.number) != entry.number) waited = 0;
      waited += std::min(now - std::exchange(last, now), 2 * pause);  // not while the process was suspended
      if (!entry.active || waited <= seconds_) continue;
      raise_alarm(number);
      waited = 0;  // the rank that it waits for is making progress
    }
  }
  /// The state of this rank as one line, after a letter: `works` or `is_idle`.
  std::string status() const {
    const double now = MPI_Wtime();
    const auto wait = detail::waits_board.look(now), file = detail::files_board.look(now);
    const double calls = file.active ? longest_file_call : 1;
    const bool working = !wait.active && file.what && now - file.latest < calls * seconds_;
    std::string text(1, working ? works : is_idle);
    const std::string bytes = wait.bytes > 0 ? detail::text({" of ", wait.bytes, " bytes"}) : "";
    text += !wait.what ? "has not communicated yet"
                       : detail::text({wait.active ? "waits in " : "does something else after ", wait.what,
                                       bytes, wait.object[0] ? " over " : "", wait.object, ", since ",
                                       std::llround(now - wait.since), " s (its call ", wait.calls, ")"});
    if (!file.active) return text;
    return text + detail::text({", and ", file.what, " ", file.object, " since ",
                                std::llround(now - file.since), " s"});
  }
  void answer_questions() {
    while (!detail::mpi_finalized()) {
      int asked = 0;
      MPI_Status from;
      MPI_Iprobe(MPI_ANY_SOURCE, question, comm_, &asked, &from);
      if (asked == 0) return;
      MPI_Recv(nullptr, 0, MPI_BYTE, from.MPI_SOURCE, question, comm_, MPI_STATUS_IGNORE);
      answers_.push_back(status());
      send(answers_.back(), from.MPI_SOURCE, answer);
    }
  }
  void send(const std::string& text, int to, int tag) const {
    MPI_Request sent = MPI_REQUEST_NULL;
    MPI_Isend(text.data(), static_cast<int>(text.size()), MPI_CHAR, to, tag, comm_, &sent);
    MPI_Request_free(&sent);
  }
  void take_answers(std::vector<std::string>& says) const {
    for (int there = 0, length = 0;;) {
      MPI_Status from;
      MPI_Iprobe(MPI_ANY_SOURCE, answer, comm_, &there, &from);
      if (there == 0) return;
      MPI_Get_count(&from, MPI_CHAR, &length);
      std::string& text = says[static_cast<std::size_t>(from.MPI_SOURCE)];
      text.resize(static_cast<std::size_t>(length));
      MPI_Recv(text.data(), length, MPI_CHAR, from.MPI_SOURCE, answer, comm_, MPI_STATUS_IGNORE);
    }
  }
  /// Returns if another rank works on a file, or if this rank no longer waits in call `number`.
  void raise_alarm(Index number) {
    const int rank = detail::rank_in(comm_), size = detail::ranks_in(comm_);
    std::vector<std::string> says(static_cast<std::size_t>(size));
    take_answers(says);  // late answers to an earlier question
    says.assign(says.size(), "");
    for (int other = 0; other < size; ++other) {
      if (other != rank) send("", other, question);
    }
    says[static_cast<std::size_t>(rank)] = status();
    for (const double begin = MPI_Wtime(); MPI_Wtime() - begin < patience; detail::sleep_for(0.01)) {
      if (std::ranges::find(says, "") == says.end()) break;
      answer_questions();
      take_answers(says);
    }
    const auto now = detail::waits_board.look(MPI_Wtime());
    if (!now.active || now.number != number) return;
    std::string report = detail::text({"no progress for ", seconds_, " s:"});
    for (int r = 0; r < size; ++r) {
      const std::string& text = says[static_cast<std::size_t>(r)];
      if (text.starts_with(works)) return;
      report += (r > 0 ? "; rank " : " rank ") + std::to_string(r) + " " +
                (text.empty() ? "does not answer" : text.substr(1));
    }
    detail::end_job(report, no_answer_code);
  }

  double seconds_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  pthread_t thread_{};
  std::atomic<bool> ends_{false};
  std::list<std::string> answers_;  // may still be in flight
};

}  // namespace shardwise
