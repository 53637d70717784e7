// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Detects requests to stop: SIGINT, SIGTERM (sent by batch systems before they kill), or SIGUSR1 (forwarded by
/// mpirun).

#include <csignal>

namespace tools {

/// Once constructed, these signals have no other effect until the process ends: otherwise one that arrives after
/// the last save would give a saved run the exit code of an unsaved one.
class StopSignal {
 public:
  StopSignal() {
    for (const int signal : signals) std::signal(signal, [](int asks) { asked_ = asks; });
  }
  /// The latest signal, or 0.
  int asked() const { return asked_; }

  static const char* name_of(int signal) {
    return signal == SIGINT ? "SIGINT" : signal == SIGTERM ? "SIGTERM" : "SIGUSR1";
  }

 private:
  static constexpr int signals[] = {SIGINT, SIGTERM, SIGUSR1};
  static inline volatile std::sig_atomic_t asked_ = 0;
};

}  // namespace tools
