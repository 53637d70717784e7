// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Texts for the parts of plans and records.

#include <shardwise/base/bodies.hpp>
#include <shardwise/base/text.hpp>
#include <shardwise/record/event_log.hpp>

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

}  // namespace detail

/// "16.00 MiB", "512 B".
inline std::string bytes_text(std::int64_t bytes) {
  return detail::scaled_text(static_cast<double>(bytes), 1024, {"B", "KiB", "MiB", "GiB", "TiB", "PiB"});
}
/// "3.14 TFLOP", "512 FLOP".
inline std::string flops_text(std::int64_t flops) {
  return detail::scaled_text(static_cast<double>(flops), 1000,
                             {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"});
}

}  // namespace shardwise
