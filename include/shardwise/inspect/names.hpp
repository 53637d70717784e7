// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Texts for the parts of plans and records.

#include <shardwise/base/bodies.hpp>
#include <shardwise/base/text.hpp>
#include <shardwise/record/recorder.hpp>

namespace shardwise {

/// The word that tables and traces have for it.
constexpr const char* name_of(Phase phase) {
  constexpr const char* names[] = {"forward", "backward", "optimizer"};
  return names[static_cast<int>(phase)];
}
constexpr const char* name_of(MemoryUse use) {
  constexpr const char* names[] = {"activations",     "parameters", "gradients",
                                   "optimizer state", "gathered",   "frozen parameters"};
  return names[static_cast<int>(use)];
}

namespace detail {

/// A number in the largest unit that does not exceed it; each unit is `step` times the one before.
inline std::string scaled_text(double value, double step, std::initializer_list<const char*> units) {
  const char* const* unit = units.begin();
  for (; value >= step && unit + 1 != units.end(); ++unit) value /= step;
  return fixed_text(value, unit == units.begin() ? 0 : 2) + " " + *unit;
}

/// A column of a table.
inline std::string text_column(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size() + 1), ' ');
  return text;
}

/// A dotted name with "*" instead of numbers: "layers.*.attention".
inline std::string without_numbers(std::string_view name) {
  std::string all;
  while (!name.empty()) {
    const std::string_view part = take_part(name, '.');
    const bool is_number = part.find_first_not_of("0123456789") == std::string_view::npos;
    all += (all.empty() ? "" : ".") + std::string(is_number ? "*" : part);
  }
  return all;
}

}  // namespace detail

/// "16.00 MiB", "512 B".
inline std::string bytes_text(std::int64_t bytes) {
  return detail::scaled_text(static_cast<double>(bytes), 1024, {"B", "KiB", "MiB", "GiB", "TiB", "PiB"});
}
/// "1 call      16.00 MiB"
inline std::string traffic_text(const Traffic& traffic) {
  return detail::text_column(std::to_string(traffic.calls) + (traffic.calls == 1 ? " call" : " calls"), 12) +
         bytes_text(traffic.bytes);
}
/// "3.14 TFLOP", "512 FLOP".
inline std::string flops_text(std::int64_t flops) {
  return detail::scaled_text(static_cast<double>(flops), 1000,
                             {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"});
}

}  // namespace shardwise
