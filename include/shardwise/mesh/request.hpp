// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A collective under way. Its buffers belong to MPI until `wait()` returns or `test()` says true.

#include <exception>

#include <shardwise/mesh/mpi.hpp>
#include <shardwise/mesh/mpi_counts.hpp>

namespace shardwise {

/// Move-only. The destructor waits; while an exception unwinds the stack it waits for one second at most,
/// because the other ranks may never join: such an exception must end the job, as it does under `run`.
class Request {
 public:
  Request() = default;

  /// For `Communicator`: `counts` and `keep_alive` live as long as the operation.
  Request(MPI_Request request, const char* call, std::unique_ptr<detail::MpiCounts> counts,
          std::shared_ptr<const void> keep_alive)
      : request_(request), call_(call), counts_(std::move(counts)), keep_alive_(std::move(keep_alive)) {}

  Request(Request&& other) noexcept { take(other); }
  Request& operator=(Request&& other) noexcept {
    Request old(std::move(*this));
    take(other);
    return *this;
  }

  ~Request() {
    if (done() || detail::mpi_finalized()) return;
    if (std::uncaught_exceptions() <= exceptions_) {
      MPI_Wait(&request_, MPI_STATUS_IGNORE);
    } else if (!detail::completes_within(1, request_)) {
      static_cast<void>(counts_.release());  // MPI still reads them
    }
  }

  /// Returns when the operation is complete. At once if it was, or if there is none.
  void wait() {
    if (done()) return;
    detail::check_mpi(MPI_Wait(&request_, MPI_STATUS_IGNORE), call_);
    release();
  }

  /// Whether the operation is complete; moves it on a little if not.
  bool test() {
    if (done()) return true;
    int flag = 0;
    detail::check_mpi(MPI_Test(&request_, &flag, MPI_STATUS_IGNORE), call_);
    if (flag == 0) return false;
    release();
    return true;
  }

 private:
  bool done() const noexcept { return request_ == MPI_REQUEST_NULL; }

  void take(Request& other) noexcept {
    request_ = std::exchange(other.request_, MPI_REQUEST_NULL);
    call_ = other.call_;
    exceptions_ = other.exceptions_;
    counts_ = std::move(other.counts_);
    keep_alive_ = std::move(other.keep_alive_);
  }

  void release() noexcept {
    counts_.reset();
    keep_alive_.reset();
  }

  MPI_Request request_ = MPI_REQUEST_NULL;
  const char* call_ = "";
  int exceptions_ = std::uncaught_exceptions();
  std::unique_ptr<detail::MpiCounts> counts_;
  std::shared_ptr<const void> keep_alive_;
};

}  // namespace shardwise
