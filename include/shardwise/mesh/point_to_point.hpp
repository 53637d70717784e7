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

using MessageList = std::vector<Message>;

/// Messages that are begun together, over the communicator's own context, where nothing else goes from rank to rank: so any
/// label may be received. What fails is told in the list.
class MessagesOperation final : public Operation {
 public:
  MessagesOperation(Communicator ranks, std::shared_ptr<MessageList> messages, DataType type)
      : ranks_(std::move(ranks)),
        list_(std::move(messages)),
        type_(mpi_type(type)),
        requests_(list_->size(), MPI_REQUEST_NULL) {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      Message& m = (*list_)[i];
      const auto count = static_cast<int>(m.count);
      m.code = m.incoming
                   ? MPI_Irecv(m.data, count, type_, m.rank, MPI_ANY_TAG, ranks_.native(), &requests_[i])
                   : MPI_Isend(m.data, count, type_, m.rank, m.label, ranks_.native(), &requests_[i]);
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
  std::shared_ptr<MessageList> list_;
  MPI_Datatype type_;
  std::vector<MPI_Request> requests_;
  std::size_t complete_ = 0;
};

/// Begins them. Their data belong to them until the request is complete. It tells no failure of a message: the list does.
/// Throws `std::length_error`, before it begins any, where one has more elements than an `int` counts.
[[nodiscard]] inline Request begin_messages(const Communicator& ranks, std::shared_ptr<MessageList> list,
                                            DataType type) {
  if (list->empty()) return {};
  for (const Message& message : *list) mpi_count(message.count, message.incoming ? "receive" : "send");
  return Request("messages", *make_pooled<MessagesOperation>(ranks, std::move(list), type), nullptr);
}

}  // namespace shardwise::detail
