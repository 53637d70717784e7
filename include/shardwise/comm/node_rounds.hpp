// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How ranks that share memory take turns. Each has two slots, which it alone writes. In a round it writes one of them,
/// says so, and reads those of all others when they have said so; the next round takes the other slot. Who says so in
/// the next round has read all of this one: so nobody writes over what another reads, and a round is one message.
///
/// Beside its flag stands a number for the collective that the rank is in: ranks that call different ones find out in the
/// first round. Of large blocks only the address goes through a slot: the other ranks read them where they are.

#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include <shardwise/base/text.hpp>
#include <shardwise/comm/host.hpp>
#include <shardwise/comm/progress.hpp>
#include <shardwise/comm/shared_segment.hpp>

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

class NodeRounds {
 public:
  /// What fits into a slot. Two of them stay in a core's second-level cache.
  static constexpr Index slot_bytes = Index{128} * 1024;

  /// Collective. Empty on all ranks where they cannot share memory.
  NodeRounds(MPI_Comm comm, int rank, int size)
      : rank_(rank),
        size_(size),
        segment_(SharedSegment::make(comm, 2 * static_cast<std::size_t>(size * stride))) {
    if (segment_) find_processes(comm);
  }

  explicit operator bool() const { return static_cast<bool>(segment_); }

  /// From the next round on this rank is in the collective of that number.
  void enter(std::uint64_t collective) { collective_ = collective; }
  /// Where this rank will write in the next round.
  char* next(Index bytes) const { return content(slot(rank_, round_ + 1), bytes); }
  /// Begins a round in which this rank writes `bytes` (an upper bound, the same on all ranks): there.
  char* start(Index bytes) {
    round_ = (round_ + 1) % Doorbell::end;
    entered(rank_) = collective_;
    return content(slot(rank_, round_), bytes);
  }
  /// It is written; and all of the round before is read. Returns when all ranks have called it; if they are not in one
  /// collective, all throw a `std::runtime_error`.
  void exchange() {
    doorbell(rank_).set(round_);
    for (int i = 1; i < size_; ++i) doorbell((rank_ + i) % size_).wait_for(round_);
    for (int r = 0; r < size_; ++r) {
      if (entered(r) != collective_) refuse(r);
    }
  }
  /// What rank r wrote in this round.
  const char* written_by(int r, Index bytes) const { return content(slot(r, round_), bytes); }

  /// Whether `read` works among all ranks.
  bool can_read() const { return !processes_.empty(); }
  /// to = `bytes` from that address in rank r's memory.
  void read(int r, const char* from, char* to, Index bytes) const {
    while (bytes > 0) {
      const ssize_t done = read_some(processes_[static_cast<std::size_t>(r)], from, to, bytes);
      if (done <= 0) fail<std::runtime_error>({"reading rank ", r, "'s memory: ", std::strerror(errno)});
      from += done;
      to += done;
      bytes -= done;
    }
  }

 private:
  static constexpr Index line = 64;
  static constexpr Index beside =
      line - 16;  // what has place in the cache line of the doorbell and of the number
  static constexpr Index stride = slot_bytes + 4096;

  static ssize_t read_some(pid_t process, const void* from, void* to, Index bytes) {
    const iovec source{const_cast<void*>(from), static_cast<std::size_t>(bytes)};
    const iovec target{to, static_cast<std::size_t>(bytes)};
    return ::process_vm_readv(process, &target, 1, &source, 1, 0);
  }

  /// Tries whether ranks can read each other's memory.
  void find_processes(MPI_Comm comm) {
    ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // needed where Yama keeps processes apart
    struct Self {
      std::uint64_t process, secret;
      const void* address;
    };
    std::uint64_t secret = random_number();
    const Self self{static_cast<std::uint64_t>(::getpid()), secret, &secret};
    std::memcpy(start(sizeof(self)), &self, sizeof(self));
    exchange();
    int here = 1, everywhere = 0;
    std::vector<pid_t> processes;
    for (int r = 0; r < size_; ++r) {
      Self other;
      std::memcpy(&other, written_by(r, sizeof(other)), sizeof(other));
      processes.push_back(static_cast<pid_t>(other.process));
      std::uint64_t found = 0;
      if (read_some(processes.back(), other.address, &found, sizeof(found)) != sizeof(found) ||
          found != other.secret)
        here = 0;
    }
    check_mpi(MPI_Allreduce(&here, &everywhere, 1, MPI_INT, MPI_MIN, comm), "MPI_Allreduce");
    if (everywhere != 0) processes_ = std::move(processes);
  }

  char* slot(int r, std::uint32_t round) const {
    return segment_.data() + (2 * r + static_cast<int>(round % 2)) * stride;
  }
  [[noreturn, gnu::cold]] void refuse(int r) const {
    fail<std::runtime_error>(
        {"ranks differ in their collective: rank ", r, " of these calls another one than rank ", rank_,
         ", or one of other sizes, types or sums (SHARDWISE_CHECK=1 says what each calls)"});
  }
  std::uint64_t& entered(int r) const {
    return *reinterpret_cast<std::uint64_t*>(slot(r, round_) + line - beside - 8);
  }
  Doorbell& doorbell(int r) const { return *reinterpret_cast<Doorbell*>(slot(r, round_)); }
  static char* content(char* slot, Index bytes) { return slot + (bytes <= beside ? line - beside : line); }

  int rank_, size_;
  SharedSegment segment_;
  std::vector<pid_t> processes_;
  std::uint32_t round_ = 0;
  std::uint64_t collective_ = 0;
};

}  // namespace shardwise::detail
