// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checks before a step: some parameter has a gradient; in the first step every trained one has; in the second no
/// gradient is left that no optimizer takes; and with SHARDWISE_CHECK=1, ranks have the same settings.

#include <shardwise/base/bodies.hpp>
#include <shardwise/guard/same_on_all_ranks.hpp>
#include <shardwise/train/reduce_gradients.hpp>

namespace shardwise::detail {

/// Throws `std::invalid_argument`, on all ranks of a mesh, unless they have the same settings, and each parameter has
/// the same group on all ranks and a gradient on all or on none. Collective.
void require_same_step(const ParameterList& cells, const std::vector<NamedText>& settings,
                       std::span<const int> groups);

/// Adds the settings of an optimizer or of a group, with their names; none if `each_setting` does not name them.
template <class Update>
void add_settings(std::vector<NamedText>& texts, const Update& update, const std::string& of) {
  if constexpr (requires { update.each_setting([](const char*, double) {}); }) {
    update.each_setting([&](const char* name, double value) {
      texts.push_back({text({name, of}), text({value})});
    });
  }
}

/// The same check for an optimizer's parameters, if their ranks compare their calls.
template <class Update, class Groups, class States>
constexpr void check_same_step(const ParameterList& cells, const Update& update, double bias_rate,
                               const Groups& groups, const States& states) {
  if (cells.empty()) return;
  const MeshView& mesh = cells.front()->stored.mesh;
  if (mesh.dry() || !mesh.communicator().checks()) return;
  std::vector<NamedText> settings{{"the rate of biases", text({bias_rate})}};
  add_settings(settings, update, "");
  for (std::size_t i = 0; i < groups.size(); ++i)
    add_settings(settings, groups[i].settings, text({" of group ", i}));
  std::vector<int> numbers;
  for (const auto& state : states) numbers.push_back(state.group);
  require_same_step(cells, settings, numbers);
}

/// Throws `std::logic_error` if no trained parameter has a gradient: a step would change nothing.
[[gnu::noinline]] constexpr void check_a_gradient(const ParameterList& cells) {
  Index trained = 0;
  for (const ParameterState* cell : cells) {
    if (cell->has_gradient()) return;
    if (!cell->layouts.frozen) ++trained;
  }
  if (trained == 0) return;  // a pipeline stage may have no trained parameter
  fail<std::logic_error>({"a step: none of the ", trained,
                          " parameters that are trained has a gradient: there was no backward pass since the "
                          "last step, or of another model"});
}

/// Throws `std::logic_error` because the first step does not reach the parameters `missing`, a subset of `all`.
[[noreturn, gnu::cold]] void fail_without_gradient(const ParameterList& missing,
                                                   const std::vector<NamedParameter>& all);

/// The checks before each step of an optimizer.
class StepChecks {
 public:
  /// Throws unless ranks agree and there is a gradient. Returns the parameters whose gradient is missing in the first
  /// step, where each trained one must have one if its settings do not say `may_be_unused`. In the second, no parameter
  /// may still gather gradients that no optimizer has taken. `settings(i)`: the settings of parameter i.
  template <class Update, class Groups, class States>
  constexpr ParameterList before_step(const ParameterList& cells, const Update& update, double bias_rate,
                                      const Groups& groups, const States& states, const auto& settings) {
    check_same_step(cells, update, bias_rate, groups, states);
    check_a_gradient(cells);
    ParameterList missing;
    if (seen_ == 2) return missing;
    for (ParameterState* cell : cells) cell->named = true;
    if (seen_ == 1 && !__builtin_is_constant_evaluated()) check_unvisited();
    for (std::size_t i = 0; seen_ == 0 && i < cells.size(); ++i) {
      if (cells[i]->layouts.frozen || cells[i]->has_gradient()) continue;
      if constexpr (requires { settings(i).may_be_unused; }) {
        if (settings(i).may_be_unused) continue;
      }
      missing.push_back(cells[i]);
    }
    if (missing.empty()) ++seen_;
    return missing;
  }

 private:
  static void check_unvisited();

  int seen_ = 0;  ///< steps, up to 2
};

}  // namespace shardwise::detail

#ifdef SHARDWISE_BODIES
namespace shardwise::detail {

SHARDWISE_INLINE void fail_without_gradient(const ParameterList& missing,
                                            const std::vector<NamedParameter>& all) {
  std::string names;
  std::size_t named = 0;
  for (const NamedParameter& one : distinct(all)) {
    if (std::find(missing.begin(), missing.end(), one.cell) == missing.end()) continue;
    if (++named <= 8) names += text({named > 1 ? ", '" : "'", one.name, "'"});
  }
  if (named > 8) names += text({" and ", named - 8, " more"});
  fail<std::logic_error>(
      {"the first step: no gradient has reached ", names,
       ": the loss does not depend on them, or what was computed from them was taken off the tape. Set "
       "may_be_unused, in the optimizer's settings or in those of a group, if that is meant"});
}

SHARDWISE_INLINE void StepChecks::check_unvisited() {
  const ParameterState* cell = ParameterState::unvisited_with_gradient();
  if (!cell) return;
  fail<std::logic_error>({"the second step: a parameter ", cell->stored.extents(),
                          " has gradients of two steps, which no optimizer has taken, and no module's visit "
                          "names it: name it in the visit of the module that has it"});
}

SHARDWISE_INLINE void require_same_step(const ParameterList& cells, const std::vector<NamedText>& settings,
                                        std::span<const int> groups) {
  const auto mesh_of = [](const ParameterState* cell) -> const MeshView& { return cell->stored.mesh; };
  for (auto first = cells.begin(); first != cells.end(); ++first) {
    const MeshView& mesh = mesh_of(*first);
    const auto lies_there = [&](const ParameterState* cell) { return mesh_of(cell) == mesh; };
    if (std::any_of(cells.begin(), first, lies_there)) continue;
    std::vector<NamedText> mine = settings;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const ParameterState& cell = *cells[i];
      if (!lies_there(&cell)) continue;
      mine.push_back({text({cell.has_gradient() ? "a gradient" : "no gradient", " for parameter ", i}), ""});
      mine.push_back({text({"group of parameter ", i}), text({groups[i]})});
    }
    require_same(mesh.communicator(), mine, "a step");
  }
}

}  // namespace shardwise::detail
#endif
