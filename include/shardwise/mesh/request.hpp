// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A collective under way. Its buffers belong to it until `wait()` returns or `test()` says true.

#include <exception>

#include <shardwise/mesh/progress.hpp>
#include <shardwise/mesh/waiting.hpp>

namespace shardwise {

/// Move-only. The destructor waits; while an exception unwinds the stack it waits for one second at most,
/// because the other ranks may never join: such an exception must end the job, as it does under `run`.
class Request {
 public:
  /// Of nothing, or of what was done at once.
  Request() = default;
  /// For `Communicator`: `keep_alive` lives as long as the operation.
  Request(const char* name, detail::Operation& operation, std::shared_ptr<const void> keep_alive,
          Index bytes = 0)
      : name_(name), bytes_(bytes), operation_(&operation) {
    operation.keep(std::move(keep_alive));
    operation.begin();
  }

  Request(Request&& other) noexcept { take(other); }
  Request& operator=(Request&& other) noexcept {
    Request old(std::move(*this));
    take(other);
    return *this;
  }

  ~Request() {
    if (!operation_) return;
    const detail::Waiting here(name_, bytes_, "", false);
    const bool unwinds = std::uncaught_exceptions() > exceptions_;
    if (operation_->wait(unwinds ? 1 : forever)) destroy_pooled(operation_);
    // else it is under way until the job ends
  }

  /// Returns when the operation is complete. At once if it was, or if there is none.
  void wait() {
    if (!operation_) return;
    const detail::Waiting here(name_, bytes_, "", false);
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

  void take(Request& other) noexcept {
    name_ = other.name_;
    bytes_ = other.bytes_;
    operation_ = std::exchange(other.operation_, nullptr);
    exceptions_ = other.exceptions_;
  }

  void release() {
    const int code = operation_->code();
    destroy_pooled(std::exchange(operation_, nullptr));
    detail::check_mpi(code, name_);
  }

  const char* name_ = "";
  Index bytes_ = 0;
  detail::Operation* operation_ = nullptr;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace shardwise
