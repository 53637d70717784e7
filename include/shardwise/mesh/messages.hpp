// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Messages between ranks that are under way together, and what is made of them alone: an all-to-all.

#include <cstring>
#include <span>

#include <shardwise/mesh/hosts.hpp>
#include <shardwise/mesh/progress.hpp>

namespace shardwise::detail {

/// The ranks among which messages go.
struct MessageGroup {
  MPI_Comm comm;  ///< for these messages alone
  int rank;
  const Hosts* hosts;
  mutable int taken = 0;  ///< numbers of pieces, the same on all ranks

  /// The number of the first of so many pieces.
  int take_tags(int pieces) const { return std::exchange(taken, (taken + pieces) % (1 << 20)); }
  /// For the first of the four rounds of a piece. Every MPI has tags below 32768.
  static int tag(int number) { return 4 * (number % 8000); }
};

/// Messages under way that wait for one another.
class Messages {
 public:
  Messages(const MessageGroup& group, MPI_Datatype type, int tag) : group_(group), type_(type), tag_(tag) {}

  void send(const void* data, Index count, int to) {
    if (count == 0) return;
    keep(MPI_Isend(data, static_cast<int>(count), type_, to, tag_, group_.comm, &next()));
  }
  void receive(void* data, Index count, int from) {
    if (count == 0) return;
    keep(MPI_Irecv(data, static_cast<int>(count), type_, from, tag_, group_.comm, &next()));
  }
  /// Whether all are there, or one has failed.
  bool test() {
    int all = 1;
    if (code_ == MPI_SUCCESS && !requests_.empty()) {
      keep(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all, MPI_STATUSES_IGNORE));
    }
    if (all != 0) requests_.clear();
    return all != 0 || code_ != MPI_SUCCESS;
  }
  void next_round() { ++tag_; }
  int code() const { return code_; }

 private:
  MPI_Request& next() { return requests_.emplace_back(MPI_REQUEST_NULL); }
  void keep(int code) {
    if (code_ == MPI_SUCCESS) code_ = code;
  }

  const MessageGroup& group_;
  MPI_Datatype type_;
  int tag_;
  int code_ = MPI_SUCCESS;
  std::vector<MPI_Request> requests_;
};

/// An all-to-all: what goes to rank r is `send_counts[r]` elements at `send.offsets[r]`.
class ExchangeOperation final : public Operation {
 public:
  using Numbers = std::span<const Index>;
  ExchangeOperation(const MessageGroup& group, const char* in, Numbers send_counts, Numbers send_offsets,
                    char* out, Numbers recv_counts, Numbers recv_offsets, Index element, MPI_Datatype type)
      : messages_(group, type, MessageGroup::tag(group.take_tags(1))) {
    for (int rank = 0; rank < group.hosts->size(); ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      const char* from = in + send_offsets[r] * element;
      char* to = out + recv_offsets[r] * element;
      if (rank == group.rank) {
        if (send_counts[r] > 0) std::memcpy(to, from, static_cast<std::size_t>(send_counts[r] * element));
      } else {
        messages_.send(from, send_counts[r], rank);
        messages_.receive(to, recv_counts[r], rank);
      }
    }
  }
  bool advance() override {
    return messages_.test() && (messages_.code() == MPI_SUCCESS || fail_with(messages_.code()));
  }

 private:
  Messages messages_;
};

}  // namespace shardwise::detail
