// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A library to be loaded before a program, which damages one message: with `DAMAGED_MESSAGE=1:40` a bit of the 40th that
/// brings 16 floats or more to rank 1, by MPI, after it was sent. Of messages between two ranks, it counts those that the rank
/// sends.

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

bool is_damaged(int count, MPI_Datatype type) {
  static int rank = -1, number = 0;
  if (type != MPI_FLOAT || count < 16) return false;
  const char* chosen = std::getenv("DAMAGED_MESSAGE");
  if (chosen && rank < 0) std::sscanf(chosen, "%d:%d", &rank, &number);
  int own = -1;
  PMPI_Comm_rank(MPI_COMM_WORLD, &own);
  return own == rank && number-- == 0;
}

void flip(void* floats) {
  unsigned bits = 0;
  std::memcpy(&bits, floats, sizeof bits);
  bits ^= 1u << 12;
  std::memcpy(floats, &bits, sizeof bits);
}

}  // namespace

extern "C" int MPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op,
                             MPI_Comm ranks) {
  const int code = PMPI_Allreduce(in, out, count, type, op, ranks);
  if (is_damaged(count, type)) flip(out);
  return code;
}

extern "C" int MPI_Allgather(const void* in, int sent, MPI_Datatype of_in, void* out, int count,
                             MPI_Datatype type, MPI_Comm ranks) {
  const int code = PMPI_Allgather(in, sent, of_in, out, count, type, ranks);
  if (is_damaged(count, type)) flip(out);
  return code;
}

extern "C" int MPI_Allgatherv(const void* in, int sent, MPI_Datatype of_in, void* out, const int counts[],
                              const int offsets[], MPI_Datatype type, MPI_Comm ranks) {
  const int code = PMPI_Allgatherv(in, sent, of_in, out, counts, offsets, type, ranks);
  if (is_damaged(counts[0], type)) flip(out);
  return code;
}

extern "C" int MPI_Reduce_scatter(const void* in, void* out, const int counts[], MPI_Datatype type, MPI_Op op,
                                  MPI_Comm ranks) {
  const int code = PMPI_Reduce_scatter(in, out, counts, type, op, ranks);
  if (is_damaged(counts[0], type)) flip(out);
  return code;
}

extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm ranks,
                         MPI_Request* request) {
  if (!is_damaged(count, type)) return PMPI_Isend(data, count, type, to, tag, ranks, request);
  void* const sent = std::malloc(sizeof(float) * static_cast<std::size_t>(count));  // until the program ends
  std::memcpy(sent, data, sizeof(float) * static_cast<std::size_t>(count));
  flip(sent);
  return PMPI_Isend(sent, count, type, to, tag, ranks, request);
}
