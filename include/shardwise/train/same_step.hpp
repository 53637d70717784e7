// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What ranks must have alike when they make a step: compared with SHARDWISE_CHECK=1.

#include <shardwise/mesh/same_on_all_ranks.hpp>
#include <shardwise/module/parameters.hpp>

namespace shardwise::detail {

/// Throws `std::invalid_argument` on all of them unless they have the same learning rates, and gradients for the same
/// parameters. Collective.
template <class = void>
void require_same_step(const ParameterList& cells, std::span<const double> rates) {
  std::vector<NamedText> mine;
  for (const double rate : rates) mine.push_back({"learning rate", text({rate})});
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const ParameterCell& cell = *cells[i];
    const bool there = cell.pending->filled() || cell.resting->filled() || cell.finished.filled();
    mine.push_back({text({there ? "a gradient" : "no gradient", " for parameter ", i}), ""});
  }
  require_same(cells.front()->stored.mesh.communicator(), mine, "a step");
}
/// The same of a rate and those of an optimizer's groups, if the ranks of these parameters compare what they do.
template <class Groups>
constexpr void check_same_step(const ParameterList& cells, double rate, const Groups& groups) {
  if (cells.empty()) return;
  const MeshView& mesh = cells.front()->stored.mesh;
  if (mesh.dry() || !mesh.communicator().checks()) return;
  std::vector<double> rates{rate};
  for (const auto& group : groups) rates.push_back(group.settings.rate);
  require_same_step(cells, rates);
}

}  // namespace shardwise::detail
