// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checks the names of the trained parameters in the parts of a model: each belongs to one stage, except for a
/// parameter of which both the first and the last stage have a copy.

#include <map>
#include <set>

#include <shardwise/module/parameters.hpp>

namespace shardwise::detail {

class NamesOfParts {
 public:
  /// Adds a part of this rank; `copy`: the parameter that its `copied()` returns, or null.
  template <class Part>
  void add(int stage, Part& part, const ParameterState* copy) {
    for (const NamedParameter& each : named_parameters_of(part))
      if (!each.cell->layouts.frozen) add(stage, each.name, each.cell, each.cell == copy);
    if (copy) add(stage, "", copy, true);  // unless it was visited
  }

  /// Throws `std::invalid_argument`, on every rank, if two parameters that are not copies of each other have the
  /// same name, or if a copy has no counterpart. Collective.
  void check(const Communicator& ranks) const;

 private:
  /// Only a parameter's first name counts, as for initial values and files.
  void add(int stage, const std::string& name, const ParameterState* cell, bool is_copy) {
    if (seen_.insert(cell).second)
      lines_ += std::to_string(stage) + (is_copy ? " copy " : " own ") + name + '\n';
  }

  std::set<const ParameterState*> seen_;  // two stages of a rank may share a parameter
  std::string lines_;
};

#ifdef SHARDWISE_BODIES

SHARDWISE_INLINE void NamesOfParts::check(const Communicator& ranks) const {
  struct Place {
    std::string stage;
    bool is_copy;
  };
  const std::string lines = gather_texts(ranks, lines_);
  std::map<std::string, Place> places;
  std::vector<std::pair<std::string, std::string>> copies;  // name and stage
  for (std::string_view rest = lines; !rest.empty();) {
    const std::string stage(take_part(rest, ' '));
    const bool is_copy = take_part(rest, ' ') == "copy";
    const std::string name(take_part(rest, '\n'));
    if (is_copy) copies.emplace_back(name, stage);
    const auto [found, is_new] = places.try_emplace(name, Place{stage, is_copy});
    const Place& other = found->second;
    if (is_new || (other.is_copy && is_copy)) continue;
    if (other.stage == stage)
      fail({"Pipeline: in stage ", stage, " two parameters have the name \"", name, "\""});
    fail({"Pipeline: stages ", other.stage, " and ", stage, " both train \"", name,
          "\"; a part's names are those in the whole model (ModulesOf counts layers so), and of what the "
          "first and the last part share both give their copy by copied()"});
  }
  if (copies.empty() || (copies.size() == 2 && copies[0].first == copies[1].first)) return;
  const std::string other = copies.size() == 2
                                ? "that of stage " + copies[1].second + " \"" + copies[1].first + "\""
                                : "that of the other end nothing";
  fail({"Pipeline: copied() of stage ", copies[0].second, " gives \"", copies[0].first, "\", ", other,
        "; the first and the last part give what both visit by the same name, or both null"});
}

#endif

}  // namespace shardwise::detail
