// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The communication of a plan, or of a recorded run, as a table of a model's modules; the log has their names, see
/// module/name_modules.hpp.
///
/// ```
/// std::cout << module_table(log, log.events(), {.depth = 3});     // by_module has the same as numbers
/// std::cout << module_table(log, with_times(log.events(), speeds));   // with seconds
///
/// per rank                      forward                 backward
/// layers.*.attention            4 calls     16.00 MiB   4 calls     16.00 MiB
/// layers.*.mlp                  4 calls     16.00 MiB   4 calls     16.00 MiB
/// all                           8 calls     32.00 MiB   8 calls     32.00 MiB
/// ```

#include <shardwise/base/bodies.hpp>
#include <shardwise/inspect/names.hpp>

namespace shardwise {

/// The rows of a table of modules.
struct ModuleRows {
  int depth = 4;            ///< parts of a name; modules within belong to this row
  bool each_layer = false;  ///< with their numbers; else "layers.*" has all of a list
};

/// The communication of a module, and of those within it that have no row of their own.
struct ModuleTraffic {
  std::string name;  ///< "layers.*.attention"; "(model)": the model itself; "(none)": outside of its modules
  std::array<Traffic, phases> traffic{};  ///< by phase; a call that several rows share counts once in each
  double seconds = 0;  ///< from begin to end, 0 without times; a shared call divides its seconds by bytes
};

/// The rows that communicate, in the order of the model's `visit`, and the last one with the name "all".
/// `events`: those of the log, perhaps with other times.
std::vector<ModuleTraffic> by_module(const EventLog& log, const std::vector<Event>& events,
                                     const ModuleRows& rows = {});

/// The same as text.
std::string module_table(const EventLog& log, const std::vector<Event>& events, const ModuleRows& rows = {});

}  // namespace shardwise

#ifdef SHARDWISE_BODIES
namespace shardwise {
namespace detail {

/// The first parts of a name.
inline std::string row_of_module(std::string_view name, const ModuleRows& rows) {
  std::size_t end = 0;
  for (int part = 0; part < rows.depth && end < name.size(); ++part)
    end = std::min(name.find('.', end + 1), name.size());
  name = name.substr(0, end);
  return name.empty() ? "(model)" : rows.each_layer ? std::string(name) : without_numbers(name);
}

}  // namespace detail

SHARDWISE_INLINE std::vector<ModuleTraffic> by_module(const EventLog& log, const std::vector<Event>& events,
                                                      const ModuleRows& rows) {
  std::vector<ModuleTraffic> all;
  std::vector<std::size_t> row_of;  // of each module; then of none
  for (int module = 0; module <= log.modules(); ++module) {
    const std::string name =
        module < log.modules() ? detail::row_of_module(log.module_name(module), rows) : "(none)";
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const auto& row) { return row.name == name; });
    row_of.push_back(static_cast<std::size_t>(found - all.begin()));
    if (found == all.end()) all.push_back({name});
  }
  all.push_back({"all"});
  std::vector<const Event*> latest(all.size());
  for (const Event& event : events) {
    if (event.computes() || event.waits) continue;
    log.for_each_part(event, [&](const ModulePart& part) {
      for (const std::size_t i :
           {row_of[static_cast<std::size_t>(part.module < 0 ? log.modules() : part.module)],
            all.size() - 1}) {
        Traffic& sum = all[i].traffic[static_cast<std::size_t>(event.phase)];
        sum.calls += std::exchange(latest[i], &event) != &event ? 1 : 0;
        sum.bytes += part.amount;
        all[i].seconds += (event.end - event.begin) * static_cast<double>(part.amount) /
                          static_cast<double>(std::max<std::int64_t>(event.amount, 1));
      }
    });
  }
  std::erase_if(all, [](const ModuleTraffic& row) {
    return row.name != "all" && row.traffic == std::array<Traffic, phases>{};
  });
  return all;
}

SHARDWISE_INLINE std::string module_table(const EventLog& log, const std::vector<Event>& events,
                                          const ModuleRows& rows) {
  const std::vector<ModuleTraffic> all = by_module(log, events, rows);
  const ModuleTraffic& sum = all.back();
  std::string table;
  const auto line = [&](const std::string& name, auto cell, const std::string& seconds) {
    std::string text = "  " + detail::text_column(name, 38);
    for (std::size_t p = 0; p < phases; ++p) {
      if (sum.traffic[p].calls > 0) text += detail::text_column(cell(p), 26);
    }
    if (sum.seconds > 0) text += seconds;
    table += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  };
  line(
      "per rank", [](std::size_t p) { return std::string(name_of(static_cast<Phase>(p))); }, "seconds");
  for (const ModuleTraffic& row : all) {
    const auto cell = [&](std::size_t p) {
      return row.traffic[p].calls > 0 ? traffic_text(row.traffic[p]) : std::string();
    };
    line(row.name, cell, detail::fixed_text(row.seconds, 6));
  }
  return table;
}

}  // namespace shardwise
#endif
