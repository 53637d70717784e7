// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Threads of the server.

#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

namespace tools {

/// A thread that runs `work(stop_token)` or `work()`. Throws `std::runtime_error` that names the limits if the system
/// allows no more threads.
template <class Work>
std::jthread start_thread(Work work) {
  try {
    return std::jthread(std::move(work));
  } catch (const std::system_error& error) {
    throw std::runtime_error(
        std::string("shardwise-serve: a thread cannot be started (") + error.what() +
        "): expected room for another by ulimit -u, ulimit -v and the container's pids.max");
  }
}

}  // namespace tools
