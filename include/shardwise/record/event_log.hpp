// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A log of the events of a run, in order, which a recorder can keep in addition to its counts; with the names of a
/// model's modules, if module/name_modules.hpp gives it these.

#include <algorithm>
#include <string_view>
#include <vector>

#include <shardwise/layout/transition.hpp>

namespace shardwise {

/// A part of a training step.
enum class Phase : std::uint8_t { forward, backward, optimizer };
inline constexpr int phases = 3;

/// The use of a block of memory. `gathered`: a sharded parameter while it is gathered for use, its gradient until it is
/// reduced, and messages of several tensors. `frozen`: parameters that are not trained; `parameter`: all others.
enum class MemoryUse : std::uint8_t { activation, parameter, gradient, optimizer_state, gathered, frozen };
inline constexpr int memory_uses = 6;

/// A computation, a communication, or a wait for a communication in the background.
struct Event {
  Phase phase = Phase::forward;
  Collective kind = Collective::none;  ///< none: a computation
  AxisSet axes = 0;
  bool background = false;  ///< a communication that overlaps later events
  bool waits = false;
  bool complete = false;            ///< it was in the background, and the log knows when it ended
  const char* operation = nullptr;  ///< the name of a computation, as "linear", or null
  int unit = -1;                    ///< the part of the model it belongs to, see `Unit`; -1: none
  int module = -1;                  ///< the module that caused it, see `EventLog::module_name`; -1: none
  std::int64_t amount = 0;          ///< flops of a computation, bytes of a communication
  std::int64_t moved = 0;           ///< bytes that a computation reads and writes, or that go within the host
  std::int64_t across = 0;          ///< bytes that the rank sends to other hosts
  std::int64_t number = 0;          ///< a recorder numbers its events across all its logs
  std::int64_t awaited = 0;         ///< the number of the event waited for, which may be older than the log
  /// Bytes in use at the peak between this event and the next.
  Array<std::int64_t, memory_uses> memory{};
  /// Seconds; 0 without a clock. A computation ends where the next event or another phase begins; other foreground
  /// events end when they are complete. A background event ends where its completion was observed: at once, or by a
  /// wait.
  double begin = 0, end = 0;

  /// Whether it is a computation; and the bytes of all uses of memory.
  constexpr bool computes() const { return kind == Collective::none; }
  constexpr std::int64_t all_memory() const {
    std::int64_t sum = 0;
    for (const std::int64_t bytes : memory) sum += bytes;
    return sum;
  }
};

/// The part of an event that belongs to a module.
struct ModulePart {
  std::int64_t event;  ///< its number
  int module;          ///< as in `Event`
  std::int64_t amount;
};

/// The events of one recorder, from when it was given the log or was restarted; the first event marks that moment,
/// and computes nothing. Must outlive its use by the recorder.
class EventLog {
 public:
  constexpr EventLog() = default;
  /// With a clock that returns seconds.
  explicit EventLog(double (*clock)()) : clock_(clock) {}

  constexpr const std::vector<Event>& events() const { return events_; }

  /// The dotted name of a module, as in names of parameters: "layers.0.attention.wo". The model itself has an empty
  /// name. Modules have the numbers from 0 to `modules()` - 1.
  constexpr std::string_view module_name(int module) const {
    const NamedModule& named = modules_[static_cast<std::size_t>(module)];
    return {letters_.data() + named.begin, named.length};
  }
  constexpr int modules() const { return static_cast<int>(modules_.size()); }
  /// Calls `f(part)` for the modules of an event, each with its part of the amount: several if they share the call, as
  /// in a bucket of gradients.
  template <class F>
  constexpr void for_each_part(const Event& event, F f) const {
    auto part =
        std::lower_bound(parts_.begin(), parts_.end(), event.number,
                         [](const ModulePart& each, std::int64_t number) { return each.event < number; });
    if (part == parts_.end() || part->event != event.number)
      f(ModulePart{event.number, event.module, event.amount});
    for (; part != parts_.end() && part->event == event.number; ++part) f(*part);
  }

  /// For `name_modules`: adds the module at this address, null if it has no call of its own, and returns its number.
  constexpr int add_module(const std::vector<char>& name, const void* object) {
    modules_.push_back({letters_.size(), name.size(), object});
    letters_.insert(letters_.end(), name.begin(), name.end());
    return modules() - 1;
  }
  /// For recorders: the number of the newest module at this address, where others may have been before; `otherwise` if
  /// it has no name. No module has the address of its first member, as both have the base class of all modules.
  constexpr int module_at(const void* object, int otherwise) const {
    for (int module = modules(); module-- > 0;) {
      if (modules_[static_cast<std::size_t>(module)].object == object) return module;
    }
    return otherwise;
  }
  /// For recorders: these bytes of the latest event belong to a module.
  constexpr void divide(int module, std::int64_t bytes) {
    Event& event = events_.back();
    if (module >= modules() || (bytes == 0 && event.amount != 0)) return;
    event.module = bytes == event.amount ? module : -1;
    if (bytes == event.amount) return;
    auto part = parts_.rbegin();
    while (part != parts_.rend() && part->event == event.number && part->module != module) ++part;
    if (part != parts_.rend() && part->event == event.number) {
      part->amount += bytes;
    } else {
      parts_.push_back({event.number, module, bytes});
    }
  }

  /// For recorders: begins an event, which ends the previous one.
  constexpr void begin(Event event) {
    close();
    event.begin = event.end = now();
    events_.push_back(event);
    open_ = true;
  }
  /// The latest event is complete, or continues in the background.
  constexpr void close(bool complete = false) {
    if (!open_) return;
    open_ = false;
    events_.back().end = now();
    events_.back().complete = complete;
  }
  /// `count` background events, from `number` on, are complete.
  constexpr void arrived(std::int64_t number, std::int64_t count) {
    close();
    const std::int64_t first = events_.front().number, last = events_.back().number;
    for (std::int64_t i = std::max(number, first); i <= std::min(number + count - 1, last); ++i) {
      Event& event = events_[static_cast<std::size_t>(i - first)];
      if (!event.complete) event.end = now();
      event.complete = true;
    }
  }
  /// The bytes now in use.
  constexpr void use(const Array<std::int64_t, memory_uses>& memory) {
    if (Event{.memory = memory}.all_memory() > events_.back().all_memory()) events_.back().memory = memory;
  }
  constexpr void clear() {
    events_.clear();
    parts_.clear();
    open_ = false;
  }

 private:
  struct NamedModule {
    std::size_t begin, length;  // of its name in letters_, as clang 14 has no constexpr strings
    const void* object;
  };
  constexpr double now() const { return clock_ ? clock_() : 0; }

  double (*clock_)() = nullptr;
  std::vector<Event> events_;
  std::vector<ModulePart> parts_;  // of events that several modules share
  std::vector<NamedModule> modules_;
  std::vector<char> letters_;
  bool open_ = false;
};

}  // namespace shardwise
