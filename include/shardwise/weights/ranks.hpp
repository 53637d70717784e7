// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The ranks that read and write the files of a mesh, or of a module, together.

#include <shardwise/module/parameters.hpp>

namespace shardwise::detail {

/// The ranks among which parameters lie. Throws `std::invalid_argument` if there are none, or on several meshes.
inline Communicator ranks_of_parameters(const std::vector<NamedParameter>& parameters) {
  if (parameters.empty()) throw std::invalid_argument("the module has no parameters");
  const Communicator& ranks = parameters.front().cell->stored.mesh.communicator();
  for (const NamedParameter& parameter : parameters) {
    if (parameter.cell->stored.mesh.communicator() != ranks) {
      throw std::invalid_argument("the parameters of the module lie among different ranks");
    }
  }
  return ranks;
}

inline std::string renamed(const std::function<std::string(std::string_view)>& name_of,
                           std::string_view path) {
  return name_of ? name_of(path) : std::string(path);
}

}  // namespace shardwise::detail
