// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Messages from one rank to another, through MPI.

#include <shardwise/mesh/transport.hpp>

namespace shardwise::detail {

/// Over a communicator's own context, where nothing else goes from rank to rank: so any label may be received.
class MessagesOperation final : public Operation {
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
