// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checks that all ranks are about to do the same: each plans the step of the same rank, and the plans are compared.
///
/// ```
/// sw::require_same(sw::world(), sw::trace<sw::Mesh<dp, tp>>({2, 4}, step));   // of the first rank, on every rank
/// ```

#include <shardwise/guard/same_on_all_ranks.hpp>
#include <shardwise/inspect/plan_table.hpp>

namespace shardwise {

/// Throws `std::invalid_argument`, the same on all ranks, unless all have this plan; it states the first rank that
/// differs from rank 0, and the first differing line of the table, or the hash of the sequence of collectives.
/// Collective: if all are equal, one all-reduce of 16 bytes.
template <MeshAxis... Axes>
void require_same(const Communicator& ranks, const CommunicationPlan<Axes...>& plan) {
  std::vector<NamedText> lines{{}};
  for (const char c : plan_table("", plan)) {
    std::string& line = lines.back().value;
    if (c == '\n') {
      lines.emplace_back();
    } else if (c != ' ' || (!line.empty() && line.back() != ' ')) {  // columns are separated by one space
      line += c;
    }
  }
  lines.back() = {"collectives with the hash", std::to_string(plan.record().sequence.value)};
  require_same(ranks, lines, "planned steps differ");
}

}  // namespace shardwise
