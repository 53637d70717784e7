// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The times and names of a log's events: times come from a clock for a run, and from a model for a plan (see
/// speeds.hpp).

#include <ctime>

#include <shardwise/inspect/names.hpp>

namespace shardwise {

/// Names of the mesh's axes for pictures and traces; of the units, which otherwise have numbers; and the logs of the
/// events and of their plan, if they have the names of modules, or null.
struct StepNames {
  std::vector<std::string> axes, units{};
  const EventLog* modules = nullptr;
  const EventLog* planned_modules = nullptr;

  /// The name of a unit, or "unit 3" if it has none; "" for -1.
  std::string of_unit(int unit) const {
    const auto i = static_cast<std::size_t>(unit);
    return unit < 0 ? "" : i < units.size() ? units[i] : "unit " + std::to_string(unit);
  }
  std::string of_axes(AxisSet set) const {
    std::string text;
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      if (set >> axis & 1u) text += (text.empty() ? "" : "+") + axes[axis];
    }
    return text;
  }
};

/// Seconds, from a clock that all processes of a host share.
inline double clock_seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// When the rank reached each event: a background event may start later than that.
inline std::vector<double> arrivals(const std::vector<Event>& events) {
  std::vector<double> times;
  double done = events.empty() ? 0 : events.front().begin;
  for (const Event& event : events) {
    times.push_back(event.background ? done : event.begin);
    if (!event.background) done = event.end;
  }
  return times;
}

/// Consecutive events of a unit, from the first to the last.
struct UnitSpan {
  int unit;
  Phase phase;
  double begin, end;
};
inline std::vector<UnitSpan> unit_spans(const std::vector<Event>& events) {
  std::vector<UnitSpan> spans;
  bool goes_on = false;
  for (const Event& event : events) {
    if (event.background) continue;  // which may belong to another unit
    goes_on = goes_on && event.unit == spans.back().unit && event.phase == spans.back().phase;
    if (!goes_on && event.unit >= 0) spans.push_back({event.unit, event.phase, event.begin, event.end});
    goes_on = event.unit >= 0;
    if (goes_on) spans.back().end = event.end;
  }
  return spans;
}

}  // namespace shardwise
