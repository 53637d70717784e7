// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A log of what a run did, in order, which a recorder keeps beside its counts if it is given one.

#include <algorithm>
#include <vector>

#include <shardwise/base/bodies.hpp>
#include <shardwise/layout/transition.hpp>

namespace shardwise {

enum class Phase : std::uint8_t { forward, backward, optimizer };
inline constexpr int phases = 3;

/// What a block of memory is for. `gathered`: what a sharded parameter is gathered to for the time of its use,
/// its gradient until that is reduced, and messages of several tensors. `frozen`: parameters that are not trained;
/// `parameter`: the others.
enum class MemoryUse : std::uint8_t { activation, parameter, gradient, optimizer_state, gathered, frozen };
inline constexpr int memory_uses = 6;

/// A computation; a communication; or that something waits for one that went on in the background.
struct Event {
  Phase phase = Phase::forward;
  Collective kind = Collective::none;  ///< none: a computation
  AxisSet axes = 0;
  bool background = false;  ///< a communication beside what follows
  bool waits = false;
  bool complete = false;     ///< it went on in the background, and the log knows when it was over
  int unit = -1;             ///< the part of the model that it is for, see `Unit`; -1: none
  std::int64_t amount = 0;   ///< flops of a computation, bytes of a communication
  std::int64_t number = 0;   ///< a recorder counts its events, through all its logs
  std::int64_t awaited = 0;  ///< the number of what is waited for, which may be older than the log
  /// Bytes in use: those at the moment of the most, from here to the next event.
  Array<std::int64_t, memory_uses> memory{};
  /// Seconds; 0 without a clock. What was not in the background ends when it is over, but a computation where the next event
  /// or another phase begins. What was in the background ends where it was seen to be over: at once, or when waited for.
  double begin = 0, end = 0;

  constexpr bool computes() const { return kind == Collective::none; }
  constexpr std::int64_t all_memory() const {
    std::int64_t sum = 0;
    for (const std::int64_t bytes : memory) sum += bytes;
    return sum;
  }
};

/// Events of one recorder, from where it was given the log, or was restarted; the first stands for that moment, and computes
/// nothing. Must live as long as the recorder has it.
class EventLog {
 public:
  EventLog() = default;
  /// With times of a clock, in seconds.
  explicit EventLog(double (*clock)()) : clock_(clock) {}

  const std::vector<Event>& events() const { return events_; }

  /// For recorders: an event begins, and ends the one before.
  void begin(Event event);
  /// What began last is over; or goes on in the background.
  void close(bool complete = false) {
    if (!open_) return;
    open_ = false;
    events_.back().end = now();
    events_.back().complete = complete;
  }
  /// So many events from this number on, which were in the background, are over if they were not.
  void arrived(std::int64_t number, std::int64_t count) {
    close();
    const std::int64_t first = events_.front().number, last = events_.back().number;
    for (std::int64_t i = std::max(number, first); i <= std::min(number + count - 1, last); ++i) {
      Event& event = events_[static_cast<std::size_t>(i - first)];
      if (!event.complete) event.end = now();
      event.complete = true;
    }
  }
  /// So many bytes are in use.
  void use(const Array<std::int64_t, memory_uses>& memory) {
    if (Event{.memory = memory}.all_memory() > events_.back().all_memory()) events_.back().memory = memory;
  }
  void clear() {
    events_.clear();
    open_ = false;
  }

 private:
  double now() const { return clock_ ? clock_() : 0; }

  double (*clock_)() = nullptr;
  std::vector<Event> events_;
  bool open_ = false;
};

}  // namespace shardwise

#ifdef SHARDWISE_BODIES
namespace shardwise {

SHARDWISE_INLINE void EventLog::begin(Event event) {
  close();
  event.begin = event.end = now();
  events_.push_back(event);
  open_ = true;
}

}  // namespace shardwise
#endif
