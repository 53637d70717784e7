// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Plans as text: one, or two beside each other, such as a planned and a recorded one.
///
/// ```
/// per rank                               planned                 recorded
/// forward   all_reduce      tp           2 calls     16.00 MiB   2 calls     16.00 MiB
/// forward   arithmetic                   4.29 GFLOP              4.29 GFLOP
/// peak memory of activations             12.00 MiB               12.00 MiB
/// ```

#include <array>
#include <cstdio>
#include <string>

#include <shardwise/mesh/communication_plan.hpp>

namespace shardwise {

constexpr const char* name_of(Phase phase) {
  constexpr const char* names[] = {"forward", "backward", "optimizer"};
  return names[static_cast<int>(phase)];
}
constexpr const char* name_of(MemoryUse use) {
  constexpr const char* names[] = {"activations", "parameters", "gradients", "optimizer state", "gathered"};
  return names[static_cast<int>(use)];
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

/// "3.14 TFLOP", "512 FLOP".
inline std::string flops_text(std::int64_t flops) {
  static constexpr const char* units[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"};
  auto value = static_cast<double>(flops);
  int unit = 0;
  for (; value >= 1000 && unit < 6; ++unit) value /= 1000;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
  return text;
}

namespace detail {

inline std::string column(std::string text, std::size_t width) {
  text.resize(text.size() < width ? width : text.size() + 1, ' ');
  return text;
}

inline std::string traffic_text(const Traffic& traffic) {
  return column(std::to_string(traffic.calls) + (traffic.calls == 1 ? " call" : " calls"), 12) +
         bytes_text(traffic.bytes);
}

/// A plan under a title.
template <class PlanType>
struct TitledPlan {
  const char* title;
  const PlanType& plan;
};

template <MeshAxis... Axes, std::size_t Count>
std::string plan_columns(const std::array<TitledPlan<CommunicationPlan<Axes...>>, Count>& columns) {
  using PlanType = CommunicationPlan<Axes...>;
  std::string text;
  auto row = [&](const std::string& what, auto cell) {
    text += "  " + column(what, 38);
    for (std::size_t i = 0; i < Count; ++i) {
      text += i + 1 < Count ? column(cell(columns[i]), 24) : cell(columns[i]) + "\n";
    }
  };
  // A line for a number that is not 0 in every plan.
  auto row_of = [&](const std::string& what, auto number, auto as_text) {
    bool any = false;
    for (const auto& each : columns) any = any || number(each.plan) != 0;
    if (any) row(what, [&](const auto& each) { return as_text(number(each.plan)); });
  };

  row("per rank", [](const auto& each) { return std::string(each.title); });
  bool communicates = false;
  for (std::size_t p = 0; p < phases; ++p) {
    const auto phase = static_cast<Phase>(p);
    for (std::size_t kind = 1; kind < collective_kinds; ++kind) {
      for (AxisSet axes = 0; axes < (1u << AxisList<Axes...>::count); ++axes) {
        auto traffic = [&](const PlanType& plan) { return plan.record().traffic[p][kind][axes]; };
        bool any = false;
        for (const auto& each : columns) any = any || traffic(each.plan).calls != 0;
        if (!any) continue;
        communicates = true;
        row(column(name_of(phase), 10) + column(name_of(static_cast<Collective>(kind)), 16) +
                AxisList<Axes...>::text(axes, "+"),
            [&](const auto& each) { return traffic_text(traffic(each.plan)); });
      }
    }
  }
  if (!communicates) row("no collectives", [](const auto&) { return std::string(); });
  for (std::size_t p = 0; p < phases; ++p) {
    const auto phase = static_cast<Phase>(p);
    row_of(
        column(name_of(phase), 10) + "arithmetic", [&](const PlanType& plan) { return plan.flops(phase); },
        flops_text);
  }
  for (int u = 0; u < memory_uses; ++u) {
    const auto use = static_cast<MemoryUse>(u);
    row_of(
        std::string("peak memory of ") + name_of(use),
        [&](const PlanType& plan) { return plan.peak_bytes(use); }, bytes_text);
  }
  row_of(
      "peak memory of all together", [](const PlanType& plan) { return plan.peak_bytes(); }, bytes_text);
  return text;
}

}  // namespace detail

/// A table of what a plan says: one line for each kind of collective on each set of axes, in each phase; then its
/// arithmetic and its memory. Different uses of memory have their peaks at different times, so the peak of all
/// together is less than their sum.
template <MeshAxis... Axes>
std::string plan_table(const char* title, const CommunicationPlan<Axes...>& plan) {
  using Column = detail::TitledPlan<CommunicationPlan<Axes...>>;
  return detail::plan_columns(std::array{Column{title, plan}});
}
/// The same of two plans, side by side.
template <MeshAxis... Axes>
std::string plan_table(const char* first_title, const CommunicationPlan<Axes...>& first,
                       const char* second_title, const CommunicationPlan<Axes...>& second) {
  using Column = detail::TitledPlan<CommunicationPlan<Axes...>>;
  return detail::plan_columns(std::array{Column{first_title, first}, Column{second_title, second}});
}

}  // namespace shardwise
