// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `std::mutex` and `std::lock_guard` under other names, for headers that every program reads: the standard's mutex
/// header includes that of clocks, and both together cost g++ an eighth of the time of MPI's and Eigen's headers.

#include <pthread.h>

namespace shardwise::detail {

class Mutex {
 public:
  constexpr Mutex() = default;
  Mutex& operator=(Mutex&&) = delete;
  void lock() { pthread_mutex_lock(&mutex_); }
  void unlock() { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

/// Holds a mutex until the scope ends.
class Locked {
 public:
  explicit Locked(Mutex& mutex) : mutex_(mutex) { mutex_.lock(); }
  ~Locked() { mutex_.unlock(); }
  Locked& operator=(Locked&&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace shardwise::detail
