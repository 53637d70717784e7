// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Plans as text: one, or a planned beside a recorded one.
///
/// ```
/// phase     collective      axes   planned                recorded
/// forward   all_reduce      tp     2 calls   16.00 MiB    2 calls   16.00 MiB
/// ```

#include <cstdio>
#include <string>

#include <shardwise/mesh/communication_plan.hpp>

namespace shardwise {

constexpr const char* name(Phase phase) {
  return phase == Phase::forward ? "forward" : phase == Phase::backward ? "backward" : "optimizer";
}
constexpr const char* name(MemoryUse use) {
  return use == MemoryUse::activation  ? "activations"
         : use == MemoryUse::parameter ? "parameters"
         : use == MemoryUse::gradient  ? "gradients"
                                       : "optimizer state";
}

/// "16.00 MiB", "512 B".
inline std::string bytes_text(std::int64_t bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 5; ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
  return text;
}

namespace detail {

inline std::string column(std::string text, std::size_t width) {
  text.resize(text.size() < width ? width : text.size() + 1, ' ');
  return text;
}

template <MeshAxis... Axes>
std::string axes_text(AxisSet set) {
  std::string text;
  for (int axis = 0; axis < AxisList<Axes...>::count; ++axis) {
    if (set >> axis & 1u)
      text +=
          (text.empty() ? "" : "+") + std::string(AxisList<Axes...>::names[static_cast<std::size_t>(axis)]);
  }
  return text;
}

inline std::string traffic_text(const Traffic& traffic) {
  return column(std::to_string(traffic.calls) + (traffic.calls == 1 ? " call" : " calls"), 10) +
         bytes_text(traffic.bytes);
}

}  // namespace detail

/// A table of what two plans say, one line for each kind of collective on each set of axes, then flops and
/// memory.
template <MeshAxis... Axes>
std::string plan_table(const char* first_title, const CommunicationPlan<Axes...>& first,
                       const char* second_title, const CommunicationPlan<Axes...>& second) {
  using detail::column;
  auto row = [](const std::string& what, const std::string& a, const std::string& b) {
    return "  " + column(what, 38) + column(a, 24) + b + "\n";
  };
  std::string text = row("per rank", first_title, second_title);
  for (std::size_t phase = 0; phase < phases; ++phase) {
    for (std::size_t kind = 1; kind < collective_kinds; ++kind) {
      for (AxisSet axes = 0; axes < (1u << AxisList<Axes...>::count); ++axes) {
        const Traffic& a = first.record().traffic[phase][kind][axes];
        const Traffic& b = second.record().traffic[phase][kind][axes];
        if (a.calls == 0 && b.calls == 0) continue;
        text += row(column(name(static_cast<Phase>(phase)), 10) +
                        column(name(static_cast<Collective>(kind)), 16) + detail::axes_text<Axes...>(axes),
                    detail::traffic_text(a), detail::traffic_text(b));
      }
    }
  }
  if (first.collectives() == 0 && second.collectives() == 0) text += row("no collectives", "", "");
  auto gigaflops = [](std::int64_t flops) {
    char number[32];
    std::snprintf(number, sizeof number, "%.3f GFLOP", static_cast<double>(flops) * 1e-9);
    return std::string(number);
  };
  text += row("arithmetic", gigaflops(first.flops()), gigaflops(second.flops()));
  for (int use = 0; use < memory_uses; ++use) {
    const auto what = static_cast<MemoryUse>(use);
    if (first.peak_bytes(what) == 0 && second.peak_bytes(what) == 0) continue;
    text += row(std::string("peak memory of ") + name(what), bytes_text(first.peak_bytes(what)),
                bytes_text(second.peak_bytes(what)));
  }
  return text;
}

}  // namespace shardwise
