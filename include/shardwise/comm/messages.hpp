// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Groups of messages in flight, and the operations that consist only of them: an all-to-all, and messages between
/// ranks.

#include <cstring>

#include <shardwise/comm/reduced_numbers.hpp>
#include <shardwise/comm/transport.hpp>

namespace shardwise::detail {

struct MessageGroup {
  MPI_Comm comm;  ///< for these messages alone
  int rank;
  const Hosts* hosts;
  mutable int taken = 0;  ///< piece numbers taken so far, the same on all ranks

  /// Reserves `pieces` numbers and returns the first.
  int take_tags(int pieces) const { return std::exchange(taken, (taken + pieces) % (1 << 20)); }
  /// The tag of the first of a piece's four rounds. Every MPI supports tags below 32768.
  static int tag(int number) { return 4 * (number % 8000); }
};

/// A group of messages in flight that complete together.
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
  /// Whether none is in flight any more: all are complete, or some have failed.
  bool test() {
    for (; complete_ < requests_.size(); ++complete_) {
      int done = 0;
      const int code = MPI_Test(&requests_[complete_], &done, MPI_STATUS_IGNORE);
      if (code == MPI_SUCCESS && done == 0) return false;
      keep(code);
    }
    requests_.clear();
    complete_ = 0;
    return true;
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
  std::size_t complete_ = 0;  ///< the first that may not be
};

/// An all-to-all.
class ExchangeOperation final : public RequestState {
 public:
  ExchangeOperation(const MessageGroup& group, const Call& call)
      : messages_(group, mpi_type(call.elements.type), MessageGroup::tag(group.take_tags(1))) {
    const Index width = call.elements.width;
    for (int rank = 0; rank < group.hosts->size(); ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      const char* from = call.source() + call.offsets[r] * width;
      char* to = call.target() + call.places[r] * width;
      if (rank == group.rank) {
        if (call.counts[r] > 0) std::memcpy(to, from, static_cast<std::size_t>(call.counts[r] * width));
      } else {
        messages_.send(from, call.counts[r], rank);
        messages_.receive(to, call.arriving[r], rank);
      }
    }
  }
  bool advance() override {
    return messages_.test() && (messages_.code() == MPI_SUCCESS || fail_with(messages_.code()));
  }

 private:
  Messages messages_;
};

/// Uses a communicator of its own for messages between ranks, so it may receive any label.
class MessagesOperation final : public RequestState {
 public:
  MessagesOperation(MPI_Comm comm, std::shared_ptr<MessageList> messages, DataType type)
      : list_(std::move(messages)), type_(mpi_type(type)), requests_(list_->size(), MPI_REQUEST_NULL) {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      Message& m = (*list_)[i];
      const auto count = static_cast<int>(m.count);
      m.code = m.incoming ? MPI_Irecv(m.data, count, type_, m.rank, MPI_ANY_TAG, comm, &requests_[i])
                          : MPI_Isend(m.data, count, type_, m.rank, m.label, comm, &requests_[i]);
      if (m.code != MPI_SUCCESS) requests_[i] = MPI_REQUEST_NULL;
    }
  }
  bool advance() override {
    for (; complete_ < requests_.size(); ++complete_) {
      Message& m = (*list_)[complete_];
      if (m.code != MPI_SUCCESS) continue;
      int done = 0;
      MPI_Status status;
      m.code = MPI_Test(&requests_[complete_], &done, &status);
      if (m.code != MPI_SUCCESS) {
        int kind = MPI_SUCCESS;
        MPI_Error_class(m.code, &kind);
        m.too_long = kind == MPI_ERR_TRUNCATE;
        continue;
      }
      if (done == 0) return false;
      if (!m.incoming) continue;
      int count = 0;
      MPI_Get_count(&status, type_, &count);
      m.arrived = count;
      m.arrived_label = status.MPI_TAG;
    }
    return true;
  }

 private:
  std::shared_ptr<MessageList> list_;
  MPI_Datatype type_;
  std::vector<MPI_Request> requests_;
  std::size_t complete_ = 0;
};

}  // namespace shardwise::detail
