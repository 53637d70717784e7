// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a plan costs in seconds, from a few speeds of the machines that will run it.
///
/// ```
/// constexpr Speeds speeds{.flops = 50e9, .memory = 8e9, .within = 4e9, .across = 1e8, .latency = 2e-5};
/// constexpr double seconds = [] {
///   EventLog log;
///   trace<Mesh<dp>>({8}, step, {}, 4, &log);   // 4 ranks on each host
///   return price(log.events(), speeds);
/// }();
/// static_assert(seconds < 0.5);
/// ```

#include <cmath>

#include <shardwise/base/text.hpp>
#include <shardwise/inspect/timeline.hpp>

namespace shardwise {

/// Speeds of one rank, measured while all ranks do the same. A speed that is infinite costs no time.
struct Speeds {
  double flops = HUGE_VAL;   ///< floating-point operations a second, in products of matrices
  double memory = HUGE_VAL;  ///< bytes a second that it reads and writes
  double within = HUGE_VAL;  ///< bytes a second that it sends to ranks on its host
  double across = HUGE_VAL;  ///< bytes a second that it sends to other hosts, while all ranks of its host do
  double latency = 0;        ///< additional seconds of a call
};

/// The seconds of one event, if it has the machine to itself.
constexpr double seconds_of(const Event& event, const Speeds& speeds) {
  const auto time = [](std::int64_t amount, double speed) { return static_cast<double>(amount) / speed; };
  if (event.waits) return 0;
  if (event.computes()) return std::max(time(event.amount, speeds.flops), time(event.moved, speeds.memory));
  return time(event.moved, speeds.within) + time(event.across, speeds.across) + speeds.latency;
}

/// The same events with modelled times: computations run in sequence; a communication starts when earlier ones on
/// the same axes are complete, and, if it is in the background, overlaps later events until one waits for it. Other
/// ranks cause no delays. Throws `std::invalid_argument` unless each speed is above 0, and the latency at least 0.
constexpr std::vector<Event> with_times(std::vector<Event> events, const Speeds& speeds) {
  for (const double speed : {speeds.flops, speeds.memory, speeds.within, speeds.across}) {
    if (!(speed > 0)) detail::fail({"with_times: a speed is ", speed, ", which must be above 0"});
  }
  if (!(speeds.latency >= 0))
    detail::fail({"with_times: the latency is ", speeds.latency, ", which must be at least 0"});
  Array<double, 1 << max_axes> free{};
  double now = 0;
  for (Event& event : events) {
    event.begin = now;
    if (event.waits) {
      const std::int64_t i = event.awaited - events.front().number;
      event.end = i < 0 ? now : std::max(now, events[static_cast<std::size_t>(i)].end);
    } else {
      if (!event.computes()) event.begin = std::max(now, free[event.axes]);
      event.end = event.begin + seconds_of(event, speeds);
      if (!event.computes()) free.values[event.axes] = event.end;
    }
    event.complete = true;
    if (!event.background) now = event.end;
  }
  return events;
}

/// The seconds that a plan's events take on one rank, from the first to the end of the last: see `with_times`.
constexpr double price(const std::vector<Event>& events, const Speeds& speeds) {
  double last = 0;
  for (const Event& event : with_times(events, speeds)) last = std::max(last, event.end);
  return last;
}

/// The speeds at which the recorded computations and the communication would have taken their recorded times;
/// without a latency.
inline Speeds fitted(const std::vector<Event>& events) {
  struct Total {
    double amount = 0, seconds = 0;
    void add(std::int64_t more, double lasted) {
      if (more == 0) return;
      amount += static_cast<double>(more);
      seconds += std::max(lasted, 0.);
    }
    double speed() const { return amount > 0 && seconds > 0 ? amount / seconds : HUGE_VAL; }
  } flops, within, across;
  for (const Event& event : events) {
    if (event.computes()) flops.add(event.amount, event.end - event.begin);
  }
  for (const bool to_others : {false, true}) {
    Total& total = to_others ? across : within;
    for (const bool background : {false, true}) {
      if (total.amount > 0) break;  // calls in the background last longer than they take
      for (const Event& event : events) {
        if (event.computes() || event.waits || event.background != background ||
            (event.across > 0) != to_others)
          continue;
        const double others = to_others ? static_cast<double>(event.moved) / within.speed() : 0;
        total.add(to_others ? event.across : event.moved, event.end - event.begin - others);
      }
    }
  }
  return {.flops = flops.speed(), .within = within.speed(), .across = across.speed()};
}

/// "1.00 TFLOP/s; memory 9.00 GB/s; within a host 5.00 GB/s; 5.00 µs a call", without infinite speeds.
inline std::string speeds_text(const Speeds& speeds) {
  std::string text;
  if (speeds.flops < HUGE_VAL) text += flops_text(std::llround(speeds.flops)) + "/s; ";
  const std::pair<const char*, double> rates[] = {
      {"memory ", speeds.memory}, {"within a host ", speeds.within}, {"across hosts ", speeds.across}};
  for (const auto& [name, rate] : rates) {
    if (!(rate < HUGE_VAL)) continue;
    text += name + detail::scaled_text(rate, 1000, {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"}) + "; ";
  }
  return text + detail::scaled_text(speeds.latency * 1e9, 1000, {"ns", "µs", "ms", "s"}) + " a call";
}

}  // namespace shardwise
