// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Whether this process was asked to stop: by SIGINT, SIGTERM (as batch systems send before they kill), or SIGUSR1
/// (which mpirun forwards).

#include <csignal>

namespace tools {

/// From its beginning on these signals do nothing else, until the process ends: one that comes after the last save would
/// give a run that was saved the exit code of one that was not.
class StopSignal {
 public:
  StopSignal() {
    for (const int signal : signals) std::signal(signal, [](int asks) { asked_ = asks; });
  }
  /// The signal that came last; 0 if none did.
  int asked() const { return asked_; }

  static const char* name_of(int signal) {
    return signal == SIGINT ? "SIGINT" : signal == SIGTERM ? "SIGTERM" : "SIGUSR1";
  }

 private:
  static constexpr int signals[] = {SIGINT, SIGTERM, SIGUSR1};
  static inline volatile std::sig_atomic_t asked_ = 0;
};

}  // namespace tools
