// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A library to be loaded before an example program: it counts the data that the program moves through MPI from its
/// start to its end, and prints it then, on the first rank.

#include <cstdio>

#include <support/mpi_counter.hpp>

extern "C" int MPI_Finalize() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) std::printf("MPI saw: %s\n", mpi_counter::counts().text().c_str());
  return PMPI_Finalize();
}
