// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A library to be loaded before a program, which then takes its ranks to be on several hosts: `PRETENDED_HOSTS=0101` is a digit
/// for each rank of the job, the same for ranks of one host. What goes from host to host goes by MPI's messages.

#include <mpi.h>

#include <cstdlib>

extern "C" int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* made) {
  const char* hosts = std::getenv("PRETENDED_HOSTS");
  if (!hosts || type != MPI_COMM_TYPE_SHARED) return PMPI_Comm_split_type(comm, type, key, info, made);
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return PMPI_Comm_split(comm, hosts[rank] - '0', key, made);
}
