// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A collective under way. Its buffers belong to it until `wait()` returns or `test()` says true.

#include <exception>

#include <shardwise/base/activity.hpp>
#include <shardwise/comm/progress.hpp>

namespace shardwise {

/// Move-only. The destructor waits; while an exception unwinds the stack it waits for one second at most,
/// because the other ranks may never join: such an exception must end the job, as it does under `run`.
class Request {
 public:
  /// Of nothing, or of what was done at once.
  Request() = default;
  /// For `Communicator`: `keep_alive` lives as long as the operation.
  Request(const char* name, detail::Operation& operation, std::shared_ptr<const void> keep_alive,
          Index bytes = 0) {
    operation.keep(std::move(keep_alive));
    operation.begin();
    operation_ = {&operation, Unfinished{name, bytes, std::uncaught_exceptions()}};
  }

  /// Returns when the operation is complete. At once if it was, or if there is none.
  void wait() {
    if (!operation_) return;
    const detail::Waiting here(operation_.get_deleter().name, operation_.get_deleter().bytes, "", false);
    operation_->wait(forever);
    release();
  }

  /// Whether the operation is complete; moves it on a little if not.
  bool test() {
    if (!operation_) return true;
    if (!operation_->test()) return false;
    release();
    return true;
  }

 private:
  static constexpr double forever = 1e300;  // seconds

  /// Ends an operation for which nobody has waited.
  struct Unfinished {
    const char* name;
    Index bytes;
    int exceptions;  // that were on their way when it began

    void operator()(detail::Operation* operation) const {
      const detail::Waiting here(name, bytes, "", false);
      const bool unwinds = std::uncaught_exceptions() > exceptions;
      if (operation->wait(unwinds ? 1 : forever)) destroy_pooled(operation);
      // else it is under way until the job ends
    }
  };

  void release() {
    const int code = operation_->code();
    destroy_pooled(operation_.release());
    detail::check_mpi(code, operation_.get_deleter().name);
  }

  std::unique_ptr<detail::Operation, Unfinished> operation_;
};

}  // namespace shardwise
