// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A number in shared memory that one rank sets and others wait for.

#include <linux/futex.h>
#include <sys/syscall.h>

#include <shardwise/mesh/host.hpp>
#include <shardwise/mesh/progress.hpp>

namespace shardwise::detail {

/// One rank sets it to ever new numbers; it sets the next but one when all have seen the last. Zeros are one at 0.
class Doorbell {
 public:
  /// Numbers are below this.
  static constexpr std::uint32_t end = 1U << 31;

  /// Whoever sees `number` sees all that this rank wrote before.
  void set(std::uint32_t number) {
    if ((number_.exchange(number) & asleep) != 0) futex(FUTEX_WAKE, 1 << 30, nullptr);
  }

  /// Returns when it is `number`: looks again and again, then lets others have the core in between, about a millisecond
  /// long (30 microseconds where ranks share cores), then sleeps.
  void wait_for(std::uint32_t number) {
    const bool crowded = crowded_host();  // then another rank may wait for this core
    for (int i = crowded ? 20 : 200; i > 0; --i) {
      if (number_.load(std::memory_order_acquire) == number) return;
      pause();
    }
    for (int i = crowded ? 50 : 2000; i > 0; --i) {
      ::sched_yield();
      if (number_.load(std::memory_order_acquire) == number) return;
    }
    sleep_until(number);
  }

 private:
  static constexpr std::uint32_t asleep = end;  // somebody sleeps

  void sleep_until(std::uint32_t number) {
    std::uint32_t seen = number_.load(std::memory_order_acquire);
    while (seen != number) {
      if ((seen & asleep) == 0 && !number_.compare_exchange_weak(seen, seen | asleep)) continue;
      const timespec a_millisecond{0, 1000000};
      futex(FUTEX_WAIT, seen | asleep, &a_millisecond);
      // Another operation may be under way, and the rank that we wait for waits for it: so it goes on, and MPI itself.
      Progress::get().advance();
      int none = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_SELF, &none, MPI_STATUS_IGNORE);
      seen = number_.load(std::memory_order_acquire);
    }
  }

  void futex(int operation, std::uint32_t value, const timespec* at_most) {
    ::syscall(SYS_futex, &number_, operation, value, at_most, nullptr, 0);
  }
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  std::atomic<std::uint32_t> number_;
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
};

}  // namespace shardwise::detail
