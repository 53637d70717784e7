// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Which transport moves the data of a communicator of MPI's. Units that leave this to `shardwise::compiled` read no transport.

#include <shardwise/comm/checked_transport.hpp>
#include <shardwise/comm/mpi_transport.hpp>

namespace shardwise::detail {

/// Over a copy of `original`, whose collectives are checked if one of its ranks wants it. Collective.
template <class = void>
std::shared_ptr<Transport> transport_over(MPI_Comm original) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(original, &copy), "MPI_Comm_dup");
  std::shared_ptr<Transport> made = std::make_shared<MpiTransport>(copy, hosts_of(copy), copy_of(original));
  int wanted = checks_wanted() ? 1 : 0, all = 0;
  check_mpi(PMPI_Allreduce(&wanted, &all, 1, MPI_INT, MPI_MAX, copy), "MPI_Allreduce");
  if (all != 0) made = std::make_shared<CheckedTransport>(std::move(made));
  return made;
}

}  // namespace shardwise::detail
