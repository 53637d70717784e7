// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What ranks must have alike when they make a step: compared with SHARDWISE_CHECK=1.

#include <shardwise/mesh/same_on_all_ranks.hpp>
#include <shardwise/module/parameters.hpp>

namespace shardwise::detail {

/// Throws `std::invalid_argument` on all of them unless each parameter has the same learning rate and group everywhere, and they
/// have gradients for the same ones. Collective.
template <class = void>
void require_same_step(const ParameterList& cells, std::span<const double> rates,
                       std::span<const int> groups) {
  std::vector<NamedText> mine;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const ParameterCell& cell = *cells[i];
    const bool there = cell.pending->filled() || cell.resting->filled() || cell.finished.filled();
    mine.push_back({text({there ? "a gradient" : "no gradient", " for parameter ", i}), ""});
    mine.push_back({text({"learning rate of parameter ", i}), text({rates[i]})});
    mine.push_back({text({"group of parameter ", i}), text({groups[i]})});
  }
  require_same(cells.front()->stored.mesh.communicator(), mine, "a step");
}
/// The same of an optimizer's parameters, if their ranks compare what they do: those in no group have `rate`.
template <class Groups, class States>
constexpr void check_same_step(const ParameterList& cells, double rate, const Groups& groups,
                               const States& states) {
  if (cells.empty()) return;
  const MeshView& mesh = cells.front()->stored.mesh;
  if (mesh.dry() || !mesh.communicator().checks()) return;
  std::vector<double> rates;
  std::vector<int> numbers;
  for (const auto& state : states) {
    numbers.push_back(state.group);
    rates.push_back(state.group < 0 ? rate : groups[static_cast<std::size_t>(state.group)].settings.rate);
  }
  require_same_step(cells, rates, numbers);
}

}  // namespace shardwise::detail
