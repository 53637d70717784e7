// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The watchdog of a program, set by its option --timeout.

#include <cstdio>
#include <memory>

#include <shardwise/guard/watchdog.hpp>

namespace tools {

namespace sw = shardwise;

/// Null if MPI does not grant MPI_THREAD_MULTIPLE, and in a simulation, which detects deadlocks itself. Collective.
inline std::unique_ptr<sw::Watchdog> watchdog(double seconds) {
  if (sw::world().native() == MPI_COMM_NULL) return nullptr;
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (level >= MPI_THREAD_MULTIPLE) return std::make_unique<sw::Watchdog>(sw::world(), seconds);
  if (seconds > 0 && sw::world().rank() == 0)
    std::fprintf(stderr, "no --timeout: MPI does not grant MPI_THREAD_MULTIPLE\n");
  return nullptr;
}

}  // namespace tools
