// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What must hold when a step is made: there is a gradient; and, with SHARDWISE_CHECK=1, ranks have alike what they must.

#include <shardwise/mesh/same_on_all_ranks.hpp>
#include <shardwise/module/parameters.hpp>

namespace shardwise::detail {

/// Throws `std::invalid_argument`, on all ranks of a mesh, unless they have the same settings, and each parameter there the same
/// group and a gradient on all or on none. Collective.
template <class = void>
void require_same_step(const ParameterList& cells, const std::vector<NamedText>& settings,
                       std::span<const int> groups) {
  const auto mesh_of = [](const ParameterCell* cell) -> const MeshView& { return cell->stored.mesh; };
  for (auto first = cells.begin(); first != cells.end(); ++first) {
    const MeshView& mesh = mesh_of(*first);
    const auto lies_there = [&](const ParameterCell* cell) { return mesh_of(cell) == mesh; };
    if (std::any_of(cells.begin(), first, lies_there)) continue;
    std::vector<NamedText> mine = settings;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const ParameterCell& cell = *cells[i];
      if (!lies_there(&cell)) continue;
      const bool there = cell.pending->filled() || cell.resting->filled() || cell.finished.filled();
      mine.push_back({text({there ? "a gradient" : "no gradient", " for parameter ", i}), ""});
      mine.push_back({text({"group of parameter ", i}), text({groups[i]})});
    }
    require_same(mesh.communicator(), mine, "a step");
  }
}

/// The settings of an optimizer or of a group; of those that are not named, the learning rate.
template <class Update>
void add_settings(std::vector<NamedText>& texts, const Update& update, const std::string& of) {
  if constexpr (requires { update.each_setting([](const char*, double) {}); }) {
    update.each_setting([&](const char* name, double value) {
      texts.push_back({text({name, of}), text({value})});
    });
  }
}

/// The same of an optimizer's parameters, if their ranks compare what they do.
template <class Update, class Groups, class States>
constexpr void check_same_step(const ParameterList& cells, const Update& update, const Groups& groups,
                               const States& states) {
  if (cells.empty()) return;
  const MeshView& mesh = cells.front()->stored.mesh;
  if (mesh.dry() || !mesh.communicator().checks()) return;
  std::vector<NamedText> settings;
  add_settings(settings, update, "");
  for (std::size_t i = 0; i < groups.size(); ++i)
    add_settings(settings, groups[i].settings, text({" of group ", i}));
  std::vector<int> numbers;
  for (const auto& state : states) numbers.push_back(state.group);
  require_same_step(cells, settings, numbers);
}

/// Throws `std::logic_error` if none of those that are trained has its gradient: a step would change nothing.
template <class = void>
[[gnu::noinline]] constexpr void check_a_gradient(const ParameterList& cells) {
  Index trained = 0;
  for (const ParameterCell* cell : cells) {
    if (cell->finished.filled()) return;
    if (!cell->layouts.frozen) ++trained;
  }
  if (trained == 0) return;  // such a stage of a pipeline
  fail<std::logic_error>({"a step: none of the ", trained,
                          " parameters that are trained has a gradient: there was no backward pass since the "
                          "last step, or of another model"});
}

}  // namespace shardwise::detail
