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

/// On how many hosts the ranks along each axis are: "tp 2 within a host; dp 4 across 2 hosts". `host_of` returns the
/// host of a rank; ranks of one host are consecutive.
template <class HostOf>
std::string axes_on_hosts(const JobSizes& sizes, HostOf host_of) {
  std::string text;
  int ranks = 1;
  for (const int size : sizes) ranks *= size;
  for (int axis = Job::axes - 1, stride = 1; axis >= 0; stride *= sizes[static_cast<std::size_t>(axis--)]) {
    const int size = sizes[static_cast<std::size_t>(axis)];
    if (size == 1) continue;
    int most = 1;
    for (int first = 0; first < ranks; ++first) {
      if (first / stride % size != 0) continue;
      int hosts = 1;
      for (int i = 1; i < size; ++i)
        hosts += host_of(first + i * stride) == host_of(first + (i - 1) * stride) ? 0 : 1;
      most = std::max(most, hosts);
    }
    text += (text.empty() ? "" : "; ") + std::string(Job::AxesOf::names[axis]) + " " + std::to_string(size) +
            (most == 1 ? " within a host" : " across " + std::to_string(most) + " hosts");
  }
  return text;
}

/// Warns, on the first rank, if ranks along inner axes are on several hosts although one host has room for all of
/// them: these ranks communicate most, and would do so through the network. This occurs only if the number of ranks on
/// a host is not a multiple of the group's, because the ranks of `world()` are sorted by host. Collective.
inline void warn_of_torn_groups(const Job& mesh) {
  const sw::Communicator world = sw::world();
  const sw::Hosts& hosts = world.hosts();
  if (hosts.count() == 1) return;
  std::array<char, 256> own{};
  ::gethostname(own.data(), own.size() - 1);
  const std::vector<std::string> names = world.all_gather(own.data());
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
      const int last = first + group - 1;
      if (hosts.of(first) == hosts.of(last)) continue;
      const auto place = [&](int rank) {
        return "rank " + std::to_string(rank) + " on " + names[static_cast<std::size_t>(rank)];
      };
      std::fprintf(
          stderr,
          "warning: ranks along %s are on different hosts (%s, %s), though one host has room for all %d: "
          "they "
          "communicate through the network. Start a multiple of %d ranks on each host: mpirun --map-by "
          "ppr:%zu:node\n",
          axes.c_str(), place(first).c_str(), place(last).c_str(), group, group,
          room / static_cast<std::size_t>(group) * static_cast<std::size_t>(group));
      return;
    }
  }
}

}  // namespace tools
