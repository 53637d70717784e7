// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Which ranks share a host, whether they outnumber its cores, and whether they should share memory.

#include <sched.h>

#include <atomic>
#include <cstdlib>

#include <shardwise/comm/mpi.hpp>
#include <shardwise/layout/hosts.hpp>

namespace shardwise::detail {

/// Whether this host is known to run more ranks than cores available to them.
inline std::atomic<bool>& crowded_host() {
  static std::atomic<bool> crowded = false;
  return crowded;
}

/// Whether an environment variable is `yes`; if it is not set, it counts as `no`. Throws `std::invalid_argument`
/// for any other value.
inline bool environment_says(const char* variable, std::string_view yes, std::string_view no) {
  const char* text = std::getenv(variable);
  const std::string_view word = text ? text : no;
  if (word != yes && word != no) fail({variable, " is '", word, "'; expected '", yes, "' or '", no, "'"});
  return word == yes;
}

/// Whether all ranks of a communicator share a host (that is, memory) and all of them allow using it. Collective.
inline bool on_one_host(MPI_Comm comm) {
  static const bool wanted = !environment_says("SHARDWISE_TRANSPORT", "mpi", "node");
  MPI_Comm here = MPI_COMM_NULL;
  const int type = wanted ? MPI_COMM_TYPE_SHARED : MPI_UNDEFINED;
  check_mpi(MPI_Comm_split_type(comm, type, 0, MPI_INFO_NULL, &here), "MPI_Comm_split_type");
  if (!wanted) return false;
  const int ranks = ranks_in(here);
  cpu_set_t mine, cores;
  CPU_ZERO(&mine);
  ::sched_getaffinity(0, sizeof(mine), &mine);
  const int code = MPI_Allreduce(&mine, &cores, static_cast<int>(sizeof(cores)), MPI_BYTE, MPI_BOR, here);
  MPI_Comm_free(&here);
  check_mpi(code, "MPI_Allreduce");
  if (ranks > CPU_COUNT(&cores)) crowded_host() = true;
  return ranks == ranks_in(comm);
}

/// The hosts of a communicator's ranks, where sharing memory, according to MPI, means sharing a host. Collective.
/// (It calls PMPI functions, so that tools which count a program's traffic ignore it.)
inline Hosts hosts_of(MPI_Comm ranks) {
  int host = rank_in(ranks);
  MPI_Comm here = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(ranks, MPI_COMM_TYPE_SHARED, host, MPI_INFO_NULL, &here),
            "MPI_Comm_split_type");
  const int told = PMPI_Bcast(&host, 1, MPI_INT, 0, here);
  MPI_Comm_free(&here);
  check_mpi(told, "MPI_Bcast");
  std::vector<int> hosts(static_cast<std::size_t>(ranks_in(ranks)));
  check_mpi(PMPI_Allgather(&host, 1, MPI_INT, hosts.data(), 1, MPI_INT, ranks), "MPI_Allgather");
  return Hosts(hosts);
}

}  // namespace shardwise::detail
