// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// oneDNN's products of float matrices let the stack pointer point into their workspace on the heap. A signal that
/// arrives there writes its frame over whatever lies below, and the process dies of a corrupted heap, or computes
/// what is wrong (https://github.com/uxlfoundation/oneDNN/issues/4845, found in 2.6 to 3.11).

#include <signal.h>

#include <initializer_list>

namespace shardwise::kernel::detail {

/// While it lives, signals wait that are sent to this thread; those that the thread raises by an error do not. It takes
/// about 0.25 µs. Threads that are started meanwhile, such as OpenMP's, hold signals back for good.
class HeldSignals {
 public:
  HeldSignals() noexcept { pthread_sigmask(SIG_BLOCK, &held(), &before_); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  static const sigset_t& held() noexcept {
    static const sigset_t all_but_errors = [] {
      sigset_t signals;
      sigfillset(&signals);
      for (const int error : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&signals, error);
      return signals;
    }();
    return all_but_errors;
  }
  sigset_t before_;
};

}  // namespace shardwise::kernel::detail
