// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Synchronisation of ranks that share memory. Each rank has two slots, which only it writes. In a round it writes
/// one slot, sets a flag, and reads the others' slots once their flags are set; the next round uses the other slot.
/// A rank that sets its flag in the next round has read everything of this one, so no slot is overwritten while it
/// is read, and a round costs one message.
///
/// A number next to the flag identifies the collective: ranks that call different ones detect this in the first
/// round. For large blocks only the address goes through a slot, and the other ranks read them in place.

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

/// A flag that its rank sets to increasing numbers, at most two ahead of what all ranks have seen. Zero-initialised
/// memory is a valid flag at 0.
class Doorbell {
 public:
  static constexpr std::uint32_t end = 1U << 31;

  /// A rank that sees `number` also sees everything that this rank wrote before.
  void set(std::uint32_t number) {
    if ((number_.exchange(number) & asleep) != 0) futex(FUTEX_WAKE, 1 << 30, nullptr);
  }

  /// Returns when the flag is `number`: spins, then yields the core for about a millisecond (30 microseconds if
  /// ranks share cores), then sleeps.
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
  static constexpr std::uint32_t asleep = end;  // a rank is asleep

  void sleep_until(std::uint32_t number) {
    std::uint32_t seen = number_.load(std::memory_order_acquire);
    while (seen != number) {
      if ((seen & asleep) == 0 && !number_.compare_exchange_weak(seen, seen | asleep)) continue;
      const timespec a_millisecond{0, 1000000};
      futex(FUTEX_WAIT, seen | asleep, &a_millisecond);
      // The rank that we wait for may itself wait for another operation, so let these, and MPI, make progress.
      // A probe of MPI_COMM_SELF would advance nothing else in MPICH.
      Progress::get().advance();
      int none = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &none, MPI_STATUS_IGNORE);
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
  /// Bytes of a slot. Two slots fit a core's second-level cache.
  static constexpr Index slot_bytes = Index{128} * 1024;

  /// Collective. Empty on all ranks if they cannot share memory.
  NodeRounds(MPI_Comm comm, int rank, int size)
      : rank_(rank),
        size_(size),
        segment_(SharedSegment::make(comm, 2 * static_cast<std::size_t>(size * stride))) {
    if (segment_) find_processes(comm);
  }

  explicit operator bool() const { return static_cast<bool>(segment_); }

  /// From the next round on this rank is in collective number `collective`.
  void enter(std::uint64_t collective) { collective_ = collective; }
  /// The address that this rank writes in the next round.
  char* next(Index bytes) const { return content(slot(rank_, round_ + 1), bytes); }
  /// Begins a round and returns the address where this rank writes up to `bytes` (the same on all ranks).
  char* start(Index bytes) {
    round_ = (round_ + 1) % Doorbell::end;
    entered(rank_) = collective_;
    return content(slot(rank_, round_), bytes);
  }
  /// Publishes this rank's slot, and reports that the previous round is read. Returns when all ranks have called
  /// it; if they are in different collectives, all throw a `std::runtime_error`.
  void exchange() {
    doorbell(rank_).set(round_);
    for (int i = 1; i < size_; ++i) doorbell((rank_ + i) % size_).wait_for(round_);
    for (int r = 0; r < size_; ++r) {
      if (entered(r) != collective_) refuse(r);
    }
  }
  const char* written_by(int r, Index bytes) const { return content(slot(r, round_), bytes); }

  /// Whether `read` works between all ranks.
  bool can_read() const { return !processes_.empty(); }
  /// to = `bytes` bytes at an address in rank r's memory.
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
  static constexpr Index beside = line - 16;  // the rest of the cache line that the flag and the number share
  static constexpr Index stride = slot_bytes + 4096;

  static ssize_t read_some(pid_t process, const void* from, void* to, Index bytes) {
    const iovec source{const_cast<void*>(from), static_cast<std::size_t>(bytes)};
    const iovec target{to, static_cast<std::size_t>(bytes)};
    return ::process_vm_readv(process, &target, 1, &source, 1, 0);
  }

  void find_processes(MPI_Comm comm) {
    ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // needed if Yama restricts ptrace
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
