// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Messages from one rank to another. Between two ranks they arrive in the order in which they were begun, as in one
/// queue for each direction; a label that differs tells that the two ranks do not mean the same.

#include <shardwise/mesh/communicator.hpp>

namespace shardwise::detail {

/// Sent to, or received from, a rank.
struct Message {
  int rank;
  void* data;
  Index count;  ///< elements
  int label;    ///< 0 to 32767: sent, or expected
  bool incoming;
  Index arrived = 0;  ///< when it is complete: elements; more than expected are not told
  int arrived_label = 0;
  int code = MPI_SUCCESS;
};

/// Messages that are begun together, over the communicator's own context, where nothing else goes from rank to rank: so any
/// label may be received. The list, and its data, must live until all is complete; what fails is told there.
class MessagesOperation final : public Operation {
 public:
  MessagesOperation(Communicator ranks, std::span<Message> messages, DataType type)
      : ranks_(std::move(ranks)), messages_(messages), type_(mpi_type(type)), requests_(messages.size()) {
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      Message& m = messages_[i];
      const int count = mpi_count(m.count, m.incoming ? "receive" : "send");
      m.code = m.incoming
                   ? MPI_Irecv(m.data, count, type_, m.rank, MPI_ANY_TAG, ranks_.native(), &requests_[i])
                   : MPI_Isend(m.data, count, type_, m.rank, m.label, ranks_.native(), &requests_[i]);
      if (m.code != MPI_SUCCESS) requests_[i] = MPI_REQUEST_NULL;
    }
  }
  bool advance() override {
    for (; complete_ < requests_.size(); ++complete_) {
      Message& m = messages_[complete_];
      if (m.code != MPI_SUCCESS) continue;
      int done = 0;
      MPI_Status status;
      m.code = MPI_Test(&requests_[complete_], &done, &status);
      if (m.code != MPI_SUCCESS) continue;
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
  Communicator ranks_;
  std::span<Message> messages_;
  MPI_Datatype type_;
  std::vector<MPI_Request> requests_;
  std::size_t complete_ = 0;
};

/// Begins them. The request tells no failure of a message: the messages do.
[[nodiscard]] inline Request begin_messages(const Communicator& ranks, std::span<Message> messages,
                                            DataType type) {
  if (messages.empty()) return {};
  return Request("messages", *make_pooled<MessagesOperation>(ranks, messages, type), nullptr);
}

}  // namespace shardwise::detail
