// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A collective in flight. It owns its buffers until `wait()` returns or `test()` returns true.

#include <exception>

#include <shardwise/base/activity.hpp>
#include <shardwise/comm/progress.hpp>

namespace shardwise {

/// Move-only. The destructor waits; during stack unwinding it waits for at most one second, because the other ranks
/// may never join: such an exception must end the job, as it does under `run`.
class Request {
 public:
  /// An empty or already complete request.
  Request() = default;
  /// For `Communicator`: keeps `keep_alive` until the operation is complete.
  Request(const char* name, detail::RequestState& operation, std::shared_ptr<const void> keep_alive,
          Index bytes = 0) {
    operation.keep(std::move(keep_alive));
    operation.begin();
    operation_ = {&operation, Unfinished{name, bytes, std::uncaught_exceptions()}};
  }

  /// Returns when the operation is complete; at once for an empty request.
  void wait() {
    if (!operation_) return;
    const detail::Waiting here(operation_.get_deleter().name, operation_.get_deleter().bytes, "", false);
    operation_->wait(forever);
    release();
  }

  /// Whether the operation is complete; advances it if not.
  bool test() {
    if (!operation_) return true;
    if (!operation_->test()) return false;
    release();
    return true;
  }

 private:
  static constexpr double forever = 1e300;  // seconds

  /// Finishes an operation that was not waited for.
  struct Unfinished {
    const char* name;
    Index bytes;
    int exceptions;  // in flight when the operation began

    void operator()(detail::RequestState* operation) const {
      const detail::Waiting here(name, bytes, "", false);
      const bool unwinds = std::uncaught_exceptions() > exceptions;
      if (operation->wait(unwinds ? 1 : forever)) destroy_pooled(operation);
      // else it stays in flight until the job ends
    }
  };

  void release() {
    const int code = operation_->code();
    destroy_pooled(operation_.release());
    detail::check_mpi(code, operation_.get_deleter().name);
  }

  std::unique_ptr<detail::RequestState, Unfinished> operation_;
};

}  // namespace shardwise
