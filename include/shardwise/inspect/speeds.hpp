// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Modelled times from a few speeds, for plans, which have no times.

#include <cmath>

#include <shardwise/base/text.hpp>
#include <shardwise/inspect/timeline.hpp>

namespace shardwise {

struct Speeds {
  double flops = 0;  ///< a second
  Array<double, max_axes>
      bytes{};         ///< per second along each axis, the slowest along several; bytes as plans count them
  double latency = 0;  ///< additional seconds per call
};

/// The same events with modelled times: computations run in sequence; a communication starts when earlier ones on
/// the same axes are complete, and, if it is in the background, overlaps later events until one waits for it. Other
/// ranks cause no delays. Throws `std::invalid_argument` if a required speed is not above 0.
inline std::vector<Event> with_times(std::vector<Event> events, const Speeds& speeds) {
  Array<double, 1 << max_axes> free{};
  double now = 0;
  for (Event& event : events) {
    event.begin = now;
    if (event.waits) {
      const std::int64_t i = event.awaited - events.front().number;
      event.end = i < 0 ? now : std::max(now, events[static_cast<std::size_t>(i)].end);
    } else {
      double speed = event.computes() ? speeds.flops : HUGE_VAL;
      for (int axis = 0; axis < max_axes; ++axis) {
        if (event.axes >> axis & 1u) speed = std::min(speed, speeds.bytes[axis]);
      }
      if (event.amount > 0 && !(speed > 0)) {
        detail::fail(
            {"with_times: a speed is ", speed, ", of ", event.computes() ? "computations" : "communication"});
      }
      const double time = event.amount > 0 ? static_cast<double>(event.amount) / speed : 0;
      if (!event.computes()) event.begin = std::max(now, free[event.axes]);
      event.end = event.begin + time + (event.computes() ? 0 : speeds.latency);
      if (!event.computes()) free[event.axes] = event.end;
    }
    event.complete = true;
    if (!event.background) now = event.end;
  }
  return events;
}

/// The speeds at which the recorded computations, and the communication along each axis, would have taken their
/// recorded times; without a latency.
inline Speeds fitted(const std::vector<Event>& events) {
  Speeds speeds;
  double seconds[max_axes + 1]{}, amounts[max_axes + 1]{};
  for (const Event& event : events) {
    for (int axis = 0; axis <= max_axes; ++axis) {
      const bool counts = axis == max_axes ? event.computes() : (event.axes >> axis & 1u) && !event.waits;
      if (!counts || event.amount == 0) continue;
      seconds[axis] += event.end - event.begin;
      amounts[axis] += static_cast<double>(event.amount);
    }
  }
  for (int axis = 0; axis <= max_axes; ++axis) {
    (axis == max_axes ? speeds.flops : speeds.bytes[axis]) =
        seconds[axis] > 0 ? amounts[axis] / seconds[axis] : 0;
  }
  return speeds;
}

/// "modelled: 1.00 TFLOP/s; along dp 10.00 GB/s; 5 us a call".
inline std::string speeds_text(const Speeds& speeds, const StepNames& names) {
  std::string text =
      "modelled: " + detail::scaled_text(speeds.flops, 1000,
                                         {"FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"});
  for (std::size_t axis = 0; axis < names.axes.size(); ++axis) {
    if (speeds.bytes[axis] > 0) {
      text += "; along " + names.axes[axis] + " " +
              detail::scaled_text(speeds.bytes[axis], 1000, {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"});
    }
  }
  return text + "; " + detail::scaled_text(speeds.latency * 1e9, 1000, {"ns", "µs", "ms", "s"}) + " a call";
}

}  // namespace shardwise
