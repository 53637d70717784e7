// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How the ranks of a job are distributed over hosts.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "llama_mesh.hpp"

namespace tools {

/// The number of consecutive ranks on each host (the last may have fewer); 0 if they are distributed differently.
inline int ranks_per_host(const sw::Hosts& hosts) {
  const int each = static_cast<int>(hosts.ranks_on(0).size());
  for (int rank = 0; rank < hosts.size(); ++rank) {
    if (hosts.of(rank) != rank / each) return 0;
  }
  return each;
}

/// Warns, on the first rank, if ranks along inner axes are on several hosts although one host has room for all of
/// them: these ranks communicate most, and would do so through the network. Ranks along the last axes of a mesh are
/// consecutive. Collective.
inline void warn_of_torn_groups(const Job& mesh) {
  const sw::Communicator world = sw::world();
  const sw::Hosts& hosts = world.hosts();
  if (hosts.count() == 1) return;
  std::array<char, 256> own{};
  ::gethostname(own.data(), own.size() - 1);
  const std::vector<std::string> names = sw::detail::gather_each(world, own.data());
  if (world.rank() != 0) return;
  std::size_t room = 0;
  for (int host = 0; host < hosts.count(); ++host) room = std::max(room, hosts.ranks_on(host).size());
  std::string axes;
  for (int axis = Job::axes - 1, group = 1; axis >= 0; --axis) {
    const int size = mesh.sizes()[axis];
    if (size == 1) continue;
    group *= size;
    axes = Job::AxesOf::names[axis] + (" " + std::to_string(size)) + (axes.empty() ? "" : " x ") + axes;
    if (static_cast<std::size_t>(group) > room) return;
    for (int first = 0; first < world.size(); first += group) {
      std::string where;
      for (int rank = first; rank < std::min(first + group, first + 8); ++rank) {
        where += (rank > first ? ", rank " : "rank ") + std::to_string(rank) + " on " +
                 names[static_cast<std::size_t>(rank)];
      }
      bool torn = false;
      for (int rank = first; rank < first + group; ++rank) torn = torn || hosts.of(rank) != hosts.of(first);
      if (!torn) continue;
      std::fprintf(
          stderr,
          "warning: ranks along %s are on different hosts (%s%s), though one host has room for all %d: they "
          "communicate through the network. Start consecutive ranks on one host, and a multiple of %d on "
          "each: mpirun --map-by slot, or --map-by ppr:%zu:node\n",
          axes.c_str(), where.c_str(), group > 8 ? ", ..." : "", group, group,
          room / static_cast<std::size_t>(group) * static_cast<std::size_t>(group));
      return;
    }
  }
}

}  // namespace tools
