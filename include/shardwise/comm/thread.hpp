// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Threads of the library.

#include <pthread.h>
#include <signal.h>

#include <shardwise/base/text.hpp>

namespace shardwise::detail {

/// Starts a thread that runs `(object.*work)()`. It blocks signals, which are left to the program's threads. Throws
/// `std::runtime_error`, beginning with `who`, if no thread can be created.
template <auto work, class Object>
pthread_t start_thread(Object& object, const char* who) {
  pthread_t thread{};
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int failed = pthread_create(
      &thread, nullptr,
      [](void* self) -> void* {
        (static_cast<Object*>(self)->*work)();
        return nullptr;
      },
      &object);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed != 0) {
    fail<std::runtime_error>({who, ": a thread cannot be started (error ", failed,
                              "): expected room for another by ulimit -u, ulimit -v and the container's "
                              "pids.max"});
  }
  return thread;
}

}  // namespace shardwise::detail
