// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The price of a plan in seconds, from a few speeds of the machines that will run it.
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
  double flops = HUGE_VAL;      ///< floating-point operations a second, in products of matrices
  double attention = HUGE_VAL;  ///< the same in attention, if lower than `flops`
  double memory = HUGE_VAL;     ///< bytes a second that it reads and writes
  double within = HUGE_VAL;     ///< bytes a second that it sends to ranks on its host
  double across = HUGE_VAL;   ///< bytes a second that it sends to other hosts, while all ranks of its host do
  double latency = 0;         ///< additional seconds of a call within a host
  double latency_across = 0;  ///< additional seconds of a call that sends to other hosts
  double overlap = 1;         ///< the part of a background transfer to other hosts in which a rank computes
};

namespace detail {

constexpr double seconds_for(std::int64_t amount, double speed) {
  return static_cast<double>(amount) / speed;
}
constexpr bool is_attention(const Event& event) {
  return event.operation && std::string_view(event.operation) == "attention";
}
/// The seconds of a communication in which the rank's processor copies data.
constexpr double seconds_within(const Event& event, const Speeds& speeds) {
  return seconds_for(event.moved, speeds.within) + (event.across > 0 ? 0 : speeds.latency);
}
constexpr double seconds_across(const Event& event, const Speeds& speeds) {
  return seconds_for(event.across, speeds.across) + (event.across > 0 ? speeds.latency_across : 0);
}

}  // namespace detail

/// The seconds of one event, if it has the machine to itself.
constexpr double seconds_of(const Event& event, const Speeds& speeds) {
  if (event.waits) return 0;
  if (!event.computes()) return detail::seconds_within(event, speeds) + detail::seconds_across(event, speeds);
  const double flops = detail::is_attention(event) ? std::min(speeds.flops, speeds.attention) : speeds.flops;
  return std::max(detail::seconds_for(event.amount, flops), detail::seconds_for(event.moved, speeds.memory));
}

/// The same events with modelled times: computations run in sequence; a communication starts when earlier ones on
/// the same axes are complete. If it is in the background, its transfers to other hosts overlap later events until one
/// waits for it, as far as `speeds.overlap` says; those within a host do not, because processors make them. Other ranks
/// cause no delays. Throws `std::invalid_argument` unless each speed is above 0, latencies are at least 0, and the
/// overlap is from 0 to 1.
constexpr std::vector<Event> with_times(std::vector<Event> events, const Speeds& speeds) {
  for (const double speed : {speeds.flops, speeds.attention, speeds.memory, speeds.within, speeds.across}) {
    if (!(speed > 0)) detail::fail({"with_times: a speed is ", speed, ", which must be above 0"});
  }
  for (const double latency : {speeds.latency, speeds.latency_across}) {
    if (!(latency >= 0)) detail::fail({"with_times: a latency is ", latency, ", which must be at least 0"});
  }
  if (!(speeds.overlap >= 0 && speeds.overlap <= 1))
    detail::fail({"with_times: the overlap is ", speeds.overlap, ", which must be from 0 to 1"});
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
    now = event.background ? now + detail::seconds_within(event, speeds) +
                                 (1 - speeds.overlap) * detail::seconds_across(event, speeds)
                           : event.end;
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
/// without latencies.
inline Speeds fitted(const std::vector<Event>& events) {
  struct Total {
    double amount = 0, seconds = 0;
    void add(std::int64_t more, double lasted) {
      if (more == 0) return;
      amount += static_cast<double>(more);
      seconds += std::max(lasted, 0.);
    }
    double speed() const { return amount > 0 && seconds > 0 ? amount / seconds : HUGE_VAL; }
  } flops, attention, memory;
  for (const Event& event : events) {
    if (!event.computes()) continue;
    const bool attends = detail::is_attention(event);
    const bool copies = !attends && event.amount <= 8 * event.moved;  // else its arithmetic takes longer
    (attends  ? attention
     : copies ? memory
              : flops)
        .add(copies ? event.moved : event.amount, event.end - event.begin);
  }
  // Calls in the background may last longer than they take, so they count only if they moved most.
  const auto speed_of_calls = [&](bool to_others, double within) {
    Total totals[2];
    for (const Event& event : events) {
      if (event.computes() || event.waits || (event.across > 0) != to_others) continue;
      const double others = to_others ? static_cast<double>(event.moved) / within : 0;
      totals[event.background].add(to_others ? event.across : event.moved, event.end - event.begin - others);
    }
    return totals[totals[1].amount > totals[0].amount].speed();
  };
  Speeds speeds{.flops = flops.speed(), .attention = attention.speed(), .memory = memory.speed()};
  double modelled = 0, recorded = 0;  // a computation may be limited by the other speed
  for (const Event& event : events) {
    if (!event.computes() || event.amount + event.moved == 0) continue;
    modelled += seconds_of(event, speeds);
    recorded += event.end - event.begin;
  }
  if (modelled > 0 && recorded > 0) {
    for (double* speed : {&speeds.flops, &speeds.attention, &speeds.memory}) *speed *= modelled / recorded;
  }
  speeds.within = speed_of_calls(false, HUGE_VAL);
  speeds.across = speed_of_calls(true, speeds.within);
  return speeds;
}

/// "1.00 TFLOP/s; memory 9.00 GB/s; within a host 5.00 GB/s; 5.00 µs a call", without infinite speeds.
inline std::string speeds_text(const Speeds& speeds) {
  std::string text;
  if (speeds.flops < HUGE_VAL) text += flops_text(std::llround(speeds.flops)) + "/s; ";
  if (speeds.attention < speeds.flops)
    text += "attention " + flops_text(std::llround(speeds.attention)) + "/s; ";
  const std::pair<const char*, double> rates[] = {
      {"memory ", speeds.memory}, {"within a host ", speeds.within}, {"across hosts ", speeds.across}};
  for (const auto& [name, rate] : rates) {
    if (!(rate < HUGE_VAL)) continue;
    text += name + detail::scaled_text(rate, 1000, {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"}) + "; ";
  }
  const auto time = [](double seconds) {
    return detail::scaled_text(seconds * 1e9, 1000, {"ns", "µs", "ms", "s"});
  };
  text += time(speeds.latency) + " a call";
  if (speeds.latency_across > 0) text += ", " + time(speeds.latency_across) + " across hosts";
  return text;
}

}  // namespace shardwise
