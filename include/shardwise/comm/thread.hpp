// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Threads of the library's own.

#include <pthread.h>
#include <signal.h>

#include <shardwise/base/text.hpp>

namespace shardwise::detail {

/// A thread of the library's own, which runs `(object.*work)()`. Signals are for the program's threads. Throws
/// `std::runtime_error`, with `who` in front, if there can be no more threads.
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
  if (failed != 0) fail<std::runtime_error>({who, ": a thread cannot be started: error ", failed});
  return thread;
}

}  // namespace shardwise::detail
