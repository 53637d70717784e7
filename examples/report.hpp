// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Plans beside recordings.

#include <cstdio>

#include <shardwise/inspect/plan_table.hpp>

namespace examples {

namespace sw = shardwise;

/// Prints what was planned beside what was recorded; false if the communication differs.
template <class Plan>
bool report(bool prints, const char* title, const Plan& planned, const Plan& recorded) {
  if (prints) std::printf("%s", sw::plan_table(title, planned, "recorded", recorded).c_str());
  if (same_communication(planned, recorded)) return true;
  if (prints) std::printf("the recorded communication DIFFERS from the plan\n");
  return false;
}

}  // namespace examples
