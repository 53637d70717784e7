// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The ranks that read and write the files of a mesh, or of a module, together.

#include <shardwise/module/parameters.hpp>

namespace shardwise::detail {

/// Of a real mesh.
inline const Communicator& all_ranks_of(const MeshView& mesh) {
  return mesh.communicator((1u << mesh.axes()) - 1);
}
template <class MeshType>
const Communicator& ranks_of(const MeshType& mesh) {
  static_assert(!MeshType::dry, "a dry mesh has no memory to read into or to write from");
  return all_ranks_of(MeshView(mesh));
}

/// The ranks among which parameters lie. Throws `std::invalid_argument` if there are none, or on several meshes.
inline Communicator ranks_of_parameters(const std::vector<NamedParameter>& parameters) {
  if (parameters.empty()) throw std::invalid_argument("the module has no parameters");
  const Communicator& ranks = all_ranks_of(parameters.front().cell->stored.mesh);
  for (const NamedParameter& parameter : parameters) {
    if (all_ranks_of(parameter.cell->stored.mesh) != ranks) {
      throw std::invalid_argument("the parameters of the module lie among different ranks");
    }
  }
  return ranks;
}
/// The parameters of a module on a real mesh.
template <class Module>
std::vector<NamedParameter> real_parameters_of(Module& module) {
  for_each_parameter(module, [](auto& parameter) {
    static_assert(!std::remove_cvref_t<decltype(parameter)>::MeshOf::dry,
                  "a dry mesh has no memory to read into or to write from");
  });
  return named_parameters_of(module);
}

inline std::string renamed(const std::function<std::string(std::string_view)>& name_of,
                           std::string_view path) {
  return name_of ? name_of(path) : std::string(path);
}

}  // namespace shardwise::detail
