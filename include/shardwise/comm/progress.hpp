// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Lets communication progress while its rank computes. MPI moves data only inside MPI calls, so while an operation
/// is in flight, a thread wakes up at intervals, advances all operations, and sleeps again (Wittmann et al.,
/// "Asynchronous MPI for the masses", 2013). It needs MPI_THREAD_MULTIPLE, which `Environment` requests; with less,
/// an operation advances only while its `Request` is tested or waited for.

#include <atomic>

#include <shardwise/comm/mpi.hpp>
#include <shardwise/comm/thread.hpp>
#include <shardwise/memory/pooled.hpp>

namespace shardwise::detail {

/// An operation in flight, advanced by `Progress`.
class RequestState : public Pooled<RequestState> {
 public:
  /// Advances without waiting. Returns whether it is complete or has failed; in that case `fail_with` was called.
  virtual bool advance() = 0;
  inline virtual void begin();
  /// Whether it is complete; advances it if not.
  inline virtual bool test();
  /// Returns when it is complete, or after `seconds`.
  inline virtual bool wait(double seconds);
  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  /// Keeps an object alive as long as the operation.
  void keep(std::shared_ptr<const void> alive) { keep_alive_ = std::move(alive); }
  /// MPI's error code, once it is complete.
  int code() const noexcept { return code_; }

 protected:
  ~RequestState() = default;
  bool fail_with(int code) noexcept {
    code_ = code;
    return true;
  }

 private:
  friend class Progress;
  RequestState* next_ = nullptr;  // in the order in which they began
  int code_ = MPI_SUCCESS;
  std::atomic<bool> done_{false};
  std::shared_ptr<const void> keep_alive_;
};

/// All operations of the process; never destroyed. The thread starts with the first operation and ends with MPI.
class Progress {
 public:
  static Progress& get() {
    static Progress& only = *new Progress;
    return only;
  }

  void begin(RequestState& operation) {
    const Locked lock(mutex_);
    if (!started_) start();
    RequestState** end = &first_;
    while (*end) end = &(*end)->next_;
    *end = &operation;
    advance_all();
    wake();
  }
  /// Advances all, for callers that wait for something else.
  void advance() {
    const Locked lock(mutex_);
    advance_all();
  }
  /// Advances all; returns whether this one is complete.
  bool test(const RequestState& operation) {
    if (operation.done()) return true;
    const Locked lock(mutex_);
    advance_all();
    return operation.done();
  }
  /// Returns when it is complete, or after `seconds`.
  bool wait(const RequestState& operation, double seconds) {
    const double begin = MPI_Wtime();
    for (double now = begin; !test(operation); now = MPI_Wtime()) {
      if (now - begin > seconds) return false;
      if (now - begin > patience) sleep_for(1e-5);
    }
    return true;
  }

 private:
  /// Seconds that the thread sleeps; meanwhile sockets transfer what their buffers hold.
  static constexpr double nap = 4e-4;
  /// Seconds after which a waiting caller yields its core at intervals.
  static constexpr double patience = 1e-3;
  static constexpr int ended = -1;

  Progress() = default;

  void advance_all() {
    for (RequestState** place = &first_; *place;) {
      RequestState& operation = **place;
      if (operation.advance()) {
        *place = operation.next_;
        operation.done_.store(true, std::memory_order_release);
      } else {
        place = &operation.next_;
      }
    }
  }
  void wake() {
    if (under_way_.exchange(1) == 0) under_way_.notify_one();
  }
  void start() {
    started_ = true;
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_MULTIPLE) return;
    // MPI_Finalize begins by deleting the attributes of MPI_COMM_SELF.
    int key = MPI_KEYVAL_INVALID;
    check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &Progress::stop, &key, nullptr),
              "MPI_Comm_create_keyval");
    check_mpi(MPI_Comm_set_attr(MPI_COMM_SELF, key, this), "MPI_Comm_set_attr");
    thread_ = start_thread<&Progress::loop>(*this, "communication in the background");
    running_ = true;
  }
  static int stop(MPI_Comm, int, void* self, void*) {
    auto& progress = *static_cast<Progress*>(self);
    if (!std::exchange(progress.running_, false)) return MPI_SUCCESS;
    progress.under_way_.store(ended);
    progress.under_way_.notify_one();
    pthread_join(progress.thread_, nullptr);
    return MPI_SUCCESS;
  }
  void loop() {
    for (;;) {
      under_way_.wait(0);
      sleep_for(nap);
      const Locked lock(mutex_);
      if (under_way_.load() == ended) return;
      advance_all();
      int some = 1;
      if (!first_) under_way_.compare_exchange_strong(some, 0);
    }
  }

  Mutex mutex_;  // guards the list, the operations in it, and the start
  RequestState* first_ = nullptr;
  std::atomic<int> under_way_{0};
  bool started_ = false, running_ = false;
  pthread_t thread_{};
};

inline void RequestState::begin() { Progress::get().begin(*this); }
inline bool RequestState::test() { return Progress::get().test(*this); }
inline bool RequestState::wait(double seconds) {
  return !mpi_finalized() && Progress::get().wait(*this, seconds);
}

}  // namespace shardwise::detail
