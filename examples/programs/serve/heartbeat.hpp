// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Messages by which rank 0 knows that the other ranks run, and that one of them got a signal to stop.

#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include <shardwise/comm/communicator.hpp>

#include "../common/stop_signal.hpp"
#include "start_thread.hpp"

namespace tools {

namespace sw = shardwise;

/// A thread of every rank sends rank 0 a byte a few times a second, whatever its rank computes.
class Heartbeat {
 public:
  /// Collective. Without MPI_THREAD_MULTIPLE, rank 0 knows nothing of the others, and says so.
  explicit Heartbeat(const sw::Communicator& ranks)
      : seen_(static_cast<std::size_t>(ranks.size()), Clock::now()) {
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_MULTIPLE && ranks.rank() == 0)
      std::fprintf(
          stderr,
          "note: MPI does not grant MPI_THREAD_MULTIPLE: /health does not know of other ranks, and signals "
          "to them are ignored\n");
    if (level < MPI_THREAD_MULTIPLE || ranks.size() == 1) return;
    MPI_Comm_dup(ranks.native(), &comm_);
    thread_ = start_thread([this, first = ranks.rank() == 0](const std::stop_token& stop) {
      for (; !stop.stop_requested(); std::this_thread::sleep_for(pause)) first ? receive() : send();
    });
  }
  Heartbeat(const Heartbeat&) = delete;
  ~Heartbeat() {
    if (comm_ == MPI_COMM_NULL) return;
    thread_ = {};  // joins
    MPI_Comm_free(&comm_);
  }

  /// On rank 0: which rank has not been heard of for `patience`; empty: none.
  std::string problem() const {
    const std::lock_guard lock(mutex_);
    for (std::size_t rank = 1; rank < seen_.size(); ++rank) {
      const auto age = std::chrono::duration_cast<std::chrono::seconds>(seen_[0] - seen_[rank]);
      if (age >= patience)
        return "rank " + std::to_string(rank) + " has not answered for " + std::to_string(age.count()) + " s";
    }
    return "";
  }
  /// Whether this rank got a signal to stop; on rank 0, whether any rank did.
  bool asked() const {
    const std::lock_guard lock(mutex_);
    return asked_ || signal_.asked() != 0;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds pause{250};
  static constexpr std::chrono::seconds patience{10};

  void send() const {
    static constexpr char runs = 0, stops = 1;
    MPI_Request sent = MPI_REQUEST_NULL;
    MPI_Isend(signal_.asked() != 0 ? &stops : &runs, 1, MPI_BYTE, 0, 0, comm_, &sent);
    MPI_Request_free(&sent);
  }
  void receive() {
    for (;;) {
      int there = 0;
      MPI_Status from;
      MPI_Iprobe(MPI_ANY_SOURCE, 0, comm_, &there, &from);
      const std::lock_guard lock(mutex_);
      const auto now = Clock::now();
      if (there == 0) {
        seen_[0] = now;  // ages count until here: this rank may have been stopped, too
        return;
      }
      char stops = 0;
      MPI_Recv(&stops, 1, MPI_BYTE, from.MPI_SOURCE, 0, comm_, MPI_STATUS_IGNORE);
      seen_[static_cast<std::size_t>(from.MPI_SOURCE)] = now;
      asked_ = asked_ || stops != 0;
    }
  }

  StopSignal signal_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  mutable std::mutex mutex_;
  std::vector<Clock::time_point> seen_;  ///< of each rank; of rank 0, its last look
  bool asked_ = false;
  std::jthread thread_;
};

}  // namespace tools
