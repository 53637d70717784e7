// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Plans as text tables: one plan, or two side by side, such as a planned and a recorded one.
///
/// ```
/// per rank                               planned                 recorded
/// forward   all_reduce      tp           2 calls     16.00 MiB   2 calls     16.00 MiB
/// forward   arithmetic                   4.29 GFLOP              4.29 GFLOP
/// peak memory of activations             12.00 MiB               12.00 MiB
/// ```

#include <shardwise/base/bodies.hpp>
#include <shardwise/inspect/names.hpp>
#include <shardwise/record/communication_plan.hpp>

namespace shardwise {

namespace detail {

struct TitledPlan {
  const char* title;
  const Record& record;
};

/// `text_of` returns the names of a set of the plans' `axes` axes.
std::string plan_columns(std::initializer_list<TitledPlan> columns, int axes,
                         std::string (*text_of)(AxisSet, const char*));

}  // namespace detail

/// A table of a plan: one line for each kind of collective on each set of axes in each phase; then flops and
/// memory. Different uses of memory peak at different times, so the overall peak is less than their sum. At the end are
/// hints, if something is `wasted`.
template <MeshAxis... Axes>
std::string plan_table(const char* title, const CommunicationPlan<Axes...>& plan) {
  return detail::plan_columns({{title, plan.record()}}, sizeof...(Axes), &AxisList<Axes...>::text);
}
/// The same for two plans, side by side, with the hints of the first.
template <MeshAxis... Axes>
std::string plan_table(const char* first_title, const CommunicationPlan<Axes...>& first,
                       const char* second_title, const CommunicationPlan<Axes...>& second) {
  return detail::plan_columns({{first_title, first.record()}, {second_title, second.record()}},
                              sizeof...(Axes), &AxisList<Axes...>::text);
}

}  // namespace shardwise

#ifdef SHARDWISE_BODIES
namespace shardwise::detail {

SHARDWISE_INLINE std::string plan_columns(std::initializer_list<TitledPlan> columns, int axes,
                                          std::string (*text_of)(AxisSet, const char*)) {
  std::string text;
  const auto row = [&](const std::string& what, auto cell) {
    text += "  " + text_column(what, 38);
    for (const TitledPlan& each : columns) {
      text += &each + 1 < columns.end() ? text_column(cell(each), 24) : cell(each) + "\n";
    }
  };
  // Adds a row of numbers, unless all are 0. Returns whether it did.
  const auto row_of = [&](const std::string& what, std::string (*as_text)(std::int64_t), auto value) {
    const bool any = std::any_of(columns.begin(), columns.end(),
                                 [&](const TitledPlan& each) { return value(each.record) != 0; });
    if (any) row(what, [&](const TitledPlan& each) { return as_text(value(each.record)); });
    return any;
  };

  row("per rank", [](const TitledPlan& each) { return std::string(each.title); });
  bool communicates = false;
  for (int p = 0; p < phases; ++p) {
    for (int kind = 1; kind < collective_kinds; ++kind) {
      for (AxisSet set = 0; set < 1u << axes; ++set) {
        const auto traffic = [&](const TitledPlan& each) { return each.record.traffic[p][kind][set]; };
        if (std::all_of(columns.begin(), columns.end(),
                        [&](const TitledPlan& each) { return traffic(each) == Traffic{}; }))
          continue;
        communicates = true;
        row(text_column(name_of(static_cast<Phase>(p)), 10) +
                text_column(name_of(static_cast<Collective>(kind)), 16) + text_of(set, "+"),
            [&](const TitledPlan& each) { return traffic_text(traffic(each)); });
      }
    }
  }
  if (!communicates) row("no collectives", [](const TitledPlan&) { return std::string(); });
  for (int p = 0; p < phases; ++p) {
    row_of(text_column(name_of(static_cast<Phase>(p)), 10) + "to other hosts", bytes_text,
           [=](const Record& record) { return record.to_other_hosts[p]; });
  }
  for (int p = 0; p < phases; ++p) {
    row_of(text_column(name_of(static_cast<Phase>(p)), 10) + "arithmetic", flops_text,
           [=](const Record& record) { return record.flops[p]; });
  }
  for (int u = 0; u < memory_uses; ++u) {
    row_of(std::string("peak memory of ") + name_of(static_cast<MemoryUse>(u)), bytes_text,
           [=](const Record& record) { return record.memory[u].peak; });
  }
  row_of("peak memory of all together", bytes_text,
         [](const Record& record) { return record.all_memory.peak; });
  for (const Waste& each : columns.begin()->record.wasted) {
    if (each.calls == 0) break;
    text +=
        "  hint: " + bytes_text(each.bytes) + " too much over " + text_of(each.axes, "+") + ", " +
        std::to_string(each.calls) + "x before " + each.operation +
        (each.kind == Waste::repeated
             ? ": another layer redistributes the same value; use project, or redistribute it once\n"
             : ": the gradient is all-reduced, then cut; gather the value to Reduced, not to Replicate\n");
  }
  return text;
}

}  // namespace shardwise::detail
#endif
