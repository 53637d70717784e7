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

#include <shardwise/inspect/names.hpp>
#include <shardwise/record/communication_plan.hpp>

namespace shardwise {

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
template <class Plan>
struct TitledPlan {
  const char* title;
  const Plan& plan;
};

template <class Plan>
std::string plan_columns(std::initializer_list<TitledPlan<Plan>> columns) {
  std::string text;
  auto row = [&](const std::string& what, auto cell) {
    text += "  " + column(what, 38);
    for (const auto& each : columns) {
      text += &each + 1 < columns.end() ? column(cell(each), 24) : cell(each) + "\n";
    }
  };
  // A line for what is not 0 in every plan; whether there was any.
  auto row_of = [&](const std::string& what, auto as_text, auto value) {
    const bool any = std::any_of(columns.begin(), columns.end(), [&](const auto& each) {
      return value(each.plan) != decltype(value(each.plan)){};
    });
    if (any) row(what, [&](const auto& each) { return as_text(value(each.plan)); });
    return any;
  };

  row("per rank", [](const auto& each) { return std::string(each.title); });
  bool communicates = false;
  for (int p = 0; p < phases; ++p) {
    for (int kind = 1; kind < collective_kinds; ++kind) {
      for (AxisSet axes = 0; axes < (1u << Plan::AxesOf::count); ++axes) {
        const std::string what = column(name_of(static_cast<Phase>(p)), 10) +
                                 column(name_of(static_cast<Collective>(kind)), 16) +
                                 Plan::AxesOf::text(axes, "+");
        communicates |= row_of(what, traffic_text,
                               [=](const Plan& plan) { return plan.record().traffic[p][kind][axes]; });
      }
    }
  }
  if (!communicates) row("no collectives", [](const auto&) { return std::string(); });
  for (int p = 0; p < phases; ++p) {
    const auto phase = static_cast<Phase>(p);
    row_of(column(name_of(phase), 10) + "to other hosts", bytes_text,
           [=](const Plan& plan) { return plan.bytes_to_other_hosts(phase); });
  }
  for (int p = 0; p < phases; ++p) {
    const auto phase = static_cast<Phase>(p);
    row_of(column(name_of(phase), 10) + "arithmetic", flops_text,
           [=](const Plan& plan) { return plan.flops(phase); });
  }
  for (int u = 0; u < memory_uses; ++u) {
    const auto use = static_cast<MemoryUse>(u);
    row_of(std::string("peak memory of ") + name_of(use), bytes_text,
           [=](const Plan& plan) { return plan.peak_bytes(use); });
  }
  row_of("peak memory of all together", bytes_text, [](const Plan& plan) { return plan.peak_bytes(); });
  return text;
}

}  // namespace detail

/// A table of what a plan says: one line for each kind of collective on each set of axes, in each phase; then its
/// arithmetic and its memory. Different uses of memory have their peaks at different times, so the peak of all
/// together is less than their sum.
template <MeshAxis... Axes>
std::string plan_table(const char* title, const CommunicationPlan<Axes...>& plan) {
  return detail::plan_columns<CommunicationPlan<Axes...>>({{title, plan}});
}
/// The same of two plans, side by side.
template <MeshAxis... Axes>
std::string plan_table(const char* first_title, const CommunicationPlan<Axes...>& first,
                       const char* second_title, const CommunicationPlan<Axes...>& second) {
  return detail::plan_columns<CommunicationPlan<Axes...>>({{first_title, first}, {second_title, second}});
}

}  // namespace shardwise
