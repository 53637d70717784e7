// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The ranks that read and write the files of a mesh, or of a module, together.

#include <shardwise/guard/agreement.hpp>
#include <shardwise/io/file.hpp>
#include <shardwise/module/parameters.hpp>

namespace shardwise::detail {

/// Work of all ranks on files with temporary names, in steps. An error of one rank is an error of all.
struct CollectiveWrite {
  /// Collective.
  CollectiveWrite(Communicator all, std::string name) : ranks(std::move(all)), task(std::move(name)) {
    const Index mine[]{temporary_token()};
    token = static_cast<std::uint32_t>(ranks.all_gather(mine).front());
  }

  /// Runs work() on this rank, if it has met no error before.
  template <class Work>
  void on_each(Work work) {
    if (problems.none()) problems.guard(work);
  }
  template <class Work>
  void on_first(Work work) {
    if (ranks.rank() == 0) on_each(work);
  }
  /// Throws `std::runtime_error` on all ranks if any has met an error: then discard(), which removes temporary files,
  /// has returned on each of them before any continues. Collective.
  template <class Discard>
  void end_step(Discard discard) const {
    if (!ranks.agree(problems.none())) discard();
    problems.throw_together(ranks, task);
  }

  Communicator ranks;
  std::string task;
  std::uint32_t token = 0;  ///< of the temporary names
  Problems problems;
};

/// The ranks among which the parameters of a module lie. Throws `std::invalid_argument` if it has no parameters, or
/// some on several meshes.
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
