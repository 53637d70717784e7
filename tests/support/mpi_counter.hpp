// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Counts what this process asks of MPI, from outside the library: it defines the MPI functions that move
/// data, counts, and passes on to their PMPI twins. Include it in exactly one translation unit of an
/// executable.
///
/// Bytes: an all-reduce counts its buffer; an all-gather the gathered result; a reduce-scatter its input; an
/// all-to-all what this rank sends, its own block included; point to point what is sent, or the space given
/// to receive. Barriers and what MPI does inside (making communicators) are not data.
///
/// @code
/// mpi_counter::reset();
/// model(x);
/// CHECK(mpi_counter::counts().all_reduce.calls == 1);
/// CHECK(mpi_counter::counts().data_calls() == 1);
/// @endcode

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include <shardwise/comm/communicator.hpp>

namespace mpi_counter {

struct Tally {
  std::ptrdiff_t calls = 0;
  std::ptrdiff_t bytes = 0;
};

struct Counts {
  Tally all_reduce;
  Tally all_gather;
  Tally reduce_scatter;
  Tally all_to_all;
  Tally broadcast;
  Tally reduce;
  Tally gather;
  Tally scatter;
  Tally scan;
  Tally send;
  Tally receive;
  Tally one_sided;

  /// Calls of any kind.
  std::ptrdiff_t data_calls() const {
    std::ptrdiff_t sum = 0;
    each([&](const char*, const Tally& tally) { sum += tally.calls; });
    return sum;
  }

  /// Bytes of any kind.
  std::ptrdiff_t data_bytes() const {
    std::ptrdiff_t sum = 0;
    each([&](const char*, const Tally& tally) { sum += tally.bytes; });
    return sum;
  }

  /// For failure messages: `all_reduce 2 calls 64 bytes; …`, what was not called left out.
  std::string text() const {
    std::string line;
    each([&](const char* name, const Tally& tally) {
      if (tally.calls == 0) return;
      line += std::string(line.empty() ? "" : "; ") + name + ' ' + std::to_string(tally.calls) + " calls " +
              std::to_string(tally.bytes) + " bytes";
    });
    return line.empty() ? "no calls" : line;
  }

  /// f(name, tally) for every kind.
  template <class F>
  void each(F f) const {
    f("all_reduce", all_reduce);
    f("all_gather", all_gather);
    f("reduce_scatter", reduce_scatter);
    f("all_to_all", all_to_all);
    f("broadcast", broadcast);
    f("reduce", reduce);
    f("gather", gather);
    f("scatter", scatter);
    f("scan", scan);
    f("send", send);
    f("receive", receive);
    f("one_sided", one_sided);
  }
};

inline Counts seen;

/// Whether an MPI_Isend is complete only when its message is being received, as MPI allows.
inline bool synchronous_sends = false;
/// If not 0, an MPI_Isend begins late, by up to 2 ms, as these numbers fall.
inline std::atomic<unsigned> late_sends = 0;

/// Bytes that were given to MPI_Isend since the last `reset`, by the rank that they are for, up to 63. (Threads send.)
inline std::array<std::atomic<std::ptrdiff_t>, 64> sent_to{};

/// What was called since the last `reset`.
inline const Counts& counts() { return seen; }
/// Whether what MPI sees is what a program asks for: a simulation calls nothing of it, checks call more.
inline bool counting() { return shardwise::detail::mpi_initialized() && !shardwise::world().checks(); }

inline void note(Tally& tally, std::ptrdiff_t bytes) {
  ++tally.calls;
  tally.bytes += bytes;
}

/// One collective: which (a member of `seen`), how much, and among whom.
struct Event {
  const Tally* kind;
  std::ptrdiff_t bytes;
  MPI_Comm comm;
  MPI_Datatype type;  ///< of all-gathers and all-to-alls
};

/// The collectives since the last `reset`, in their order.
inline std::vector<Event> events;

inline void note(Tally& tally, std::ptrdiff_t bytes, MPI_Comm comm, MPI_Datatype type = MPI_DATATYPE_NULL) {
  note(tally, bytes);
  events.push_back({&tally, bytes, comm, type});
}

inline void reset() {
  seen = Counts{};
  events.clear();
  for (auto& bytes : sent_to) bytes = 0;
}

inline int size_of(MPI_Comm comm) {
  int size = 0;
  PMPI_Comm_size(comm, &size);
  return size;
}

inline std::ptrdiff_t bytes_of(int count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  return std::ptrdiff_t{size} * count;
}

inline std::ptrdiff_t bytes_of(const int* counts, MPI_Datatype type, MPI_Comm comm) {
  std::ptrdiff_t sum = 0;
  for (int r = 0; r < size_of(comm); ++r) sum += bytes_of(counts[r], type);
  return sum;
}

inline std::ptrdiff_t bytes_of(const int* counts, const MPI_Datatype* types, MPI_Comm comm) {
  std::ptrdiff_t sum = 0;
  for (int r = 0; r < size_of(comm); ++r) sum += bytes_of(counts[r], types[r]);
  return sum;
}

}  // namespace mpi_counter

extern "C" {

// all_reduce
int MPI_Allreduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                  MPI_Comm comm) {
  mpi_counter::note(mpi_counter::seen.all_reduce, mpi_counter::bytes_of(count, datatype), comm);
  return PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
}
int MPI_Iallreduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                   MPI_Comm comm, MPI_Request* request) {
  mpi_counter::note(mpi_counter::seen.all_reduce, mpi_counter::bytes_of(count, datatype), comm);
  return PMPI_Iallreduce(sendbuf, recvbuf, count, datatype, op, comm, request);
}

// all_gather
int MPI_Allgather(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                  MPI_Datatype recvtype, MPI_Comm comm) {
  mpi_counter::note(mpi_counter::seen.all_gather,
                    mpi_counter::bytes_of(recvcount, recvtype) * mpi_counter::size_of(comm), comm, recvtype);
  return PMPI_Allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
}
int MPI_Iallgather(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                   MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request) {
  mpi_counter::note(mpi_counter::seen.all_gather,
                    mpi_counter::bytes_of(recvcount, recvtype) * mpi_counter::size_of(comm), comm);
  return PMPI_Iallgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, request);
}
int MPI_Allgatherv(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                   const int recvcounts[], const int displs[], MPI_Datatype recvtype, MPI_Comm comm) {
  mpi_counter::note(mpi_counter::seen.all_gather, mpi_counter::bytes_of(recvcounts, recvtype, comm), comm,
                    recvtype);
  return PMPI_Allgatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm);
}
int MPI_Iallgatherv(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                    const int recvcounts[], const int displs[], MPI_Datatype recvtype, MPI_Comm comm,
                    MPI_Request* request) {
  mpi_counter::note(mpi_counter::seen.all_gather, mpi_counter::bytes_of(recvcounts, recvtype, comm), comm);
  return PMPI_Iallgatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm, request);
}

// reduce_scatter
int MPI_Reduce_scatter(const void* sendbuf, void* recvbuf, const int recvcounts[], MPI_Datatype datatype,
                       MPI_Op op, MPI_Comm comm) {
  mpi_counter::note(mpi_counter::seen.reduce_scatter, mpi_counter::bytes_of(recvcounts, datatype, comm),
                    comm);
  return PMPI_Reduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op, comm);
}
int MPI_Ireduce_scatter(const void* sendbuf, void* recvbuf, const int recvcounts[], MPI_Datatype datatype,
                        MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  mpi_counter::note(mpi_counter::seen.reduce_scatter, mpi_counter::bytes_of(recvcounts, datatype, comm),
                    comm);
  return PMPI_Ireduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op, comm, request);
}
int MPI_Reduce_scatter_block(const void* sendbuf, void* recvbuf, int recvcount, MPI_Datatype datatype,
                             MPI_Op op, MPI_Comm comm) {
  mpi_counter::note(mpi_counter::seen.reduce_scatter,
                    mpi_counter::bytes_of(recvcount, datatype) * mpi_counter::size_of(comm), comm);
  return PMPI_Reduce_scatter_block(sendbuf, recvbuf, recvcount, datatype, op, comm);
}
int MPI_Ireduce_scatter_block(const void* sendbuf, void* recvbuf, int recvcount, MPI_Datatype datatype,
                              MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  mpi_counter::note(mpi_counter::seen.reduce_scatter,
                    mpi_counter::bytes_of(recvcount, datatype) * mpi_counter::size_of(comm), comm);
  return PMPI_Ireduce_scatter_block(sendbuf, recvbuf, recvcount, datatype, op, comm, request);
}

// all_to_all
int MPI_Alltoall(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                 MPI_Datatype recvtype, MPI_Comm comm) {
  mpi_counter::note(mpi_counter::seen.all_to_all,
                    mpi_counter::bytes_of(recvcount, recvtype) * mpi_counter::size_of(comm), comm);
  return PMPI_Alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
}
int MPI_Ialltoall(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                  MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request) {
  mpi_counter::note(mpi_counter::seen.all_to_all,
                    mpi_counter::bytes_of(recvcount, recvtype) * mpi_counter::size_of(comm), comm);
  return PMPI_Ialltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, request);
}
int MPI_Alltoallv(const void* sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
                  void* recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
                  MPI_Comm comm) {
  mpi_counter::note(mpi_counter::seen.all_to_all,
                    mpi_counter::bytes_of(sendbuf == MPI_IN_PLACE ? recvcounts : sendcounts, recvtype, comm),
                    comm, recvtype);
  return PMPI_Alltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm);
}
int MPI_Ialltoallv(const void* sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
                   void* recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
                   MPI_Comm comm, MPI_Request* request) {
  mpi_counter::note(mpi_counter::seen.all_to_all,
                    mpi_counter::bytes_of(sendbuf == MPI_IN_PLACE ? recvcounts : sendcounts, recvtype, comm),
                    comm);
  return PMPI_Ialltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm,
                         request);
}
int MPI_Alltoallw(const void* sendbuf, const int sendcounts[], const int sdispls[],
                  const MPI_Datatype sendtypes[], void* recvbuf, const int recvcounts[], const int rdispls[],
                  const MPI_Datatype recvtypes[], MPI_Comm comm) {
  mpi_counter::note(mpi_counter::seen.all_to_all,
                    mpi_counter::bytes_of(sendbuf == MPI_IN_PLACE ? recvcounts : sendcounts,
                                          sendbuf == MPI_IN_PLACE ? recvtypes : sendtypes, comm),
                    comm);
  return PMPI_Alltoallw(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes,
                        comm);
}
int MPI_Ialltoallw(const void* sendbuf, const int sendcounts[], const int sdispls[],
                   const MPI_Datatype sendtypes[], void* recvbuf, const int recvcounts[], const int rdispls[],
                   const MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Request* request) {
  mpi_counter::note(mpi_counter::seen.all_to_all,
                    mpi_counter::bytes_of(sendbuf == MPI_IN_PLACE ? recvcounts : sendcounts,
                                          sendbuf == MPI_IN_PLACE ? recvtypes : sendtypes, comm),
                    comm);
  return PMPI_Ialltoallw(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes,
                         comm, request);
}

// broadcast
int MPI_Bcast(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm) {
  mpi_counter::note(mpi_counter::seen.broadcast, mpi_counter::bytes_of(count, datatype));
  return PMPI_Bcast(buffer, count, datatype, root, comm);
}
int MPI_Ibcast(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm,
               MPI_Request* request) {
  mpi_counter::note(mpi_counter::seen.broadcast, mpi_counter::bytes_of(count, datatype));
  return PMPI_Ibcast(buffer, count, datatype, root, comm, request);
}

// reduce
int MPI_Reduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, int root,
               MPI_Comm comm) {
  mpi_counter::note(mpi_counter::seen.reduce, mpi_counter::bytes_of(count, datatype));
  return PMPI_Reduce(sendbuf, recvbuf, count, datatype, op, root, comm);
}
int MPI_Ireduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, int root,
                MPI_Comm comm, MPI_Request* request) {
  mpi_counter::note(mpi_counter::seen.reduce, mpi_counter::bytes_of(count, datatype));
  return PMPI_Ireduce(sendbuf, recvbuf, count, datatype, op, root, comm, request);
}

// gather
int MPI_Gather(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
               MPI_Datatype recvtype, int root, MPI_Comm comm) {
  mpi_counter::note(mpi_counter::seen.gather,
                    sendbuf == MPI_IN_PLACE ? 0 : mpi_counter::bytes_of(sendcount, sendtype));
  return PMPI_Gather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm);
}
int MPI_Igather(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request* request) {
  mpi_counter::note(mpi_counter::seen.gather,
                    sendbuf == MPI_IN_PLACE ? 0 : mpi_counter::bytes_of(sendcount, sendtype));
  return PMPI_Igather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm, request);
}
int MPI_Gatherv(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                const int recvcounts[], const int displs[], MPI_Datatype recvtype, int root, MPI_Comm comm) {
  mpi_counter::note(mpi_counter::seen.gather,
                    sendbuf == MPI_IN_PLACE ? 0 : mpi_counter::bytes_of(sendcount, sendtype));
  return PMPI_Gatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm);
}
int MPI_Igatherv(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                 const int recvcounts[], const int displs[], MPI_Datatype recvtype, int root, MPI_Comm comm,
                 MPI_Request* request) {
  mpi_counter::note(mpi_counter::seen.gather,
                    sendbuf == MPI_IN_PLACE ? 0 : mpi_counter::bytes_of(sendcount, sendtype));
  return PMPI_Igatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm,
                       request);
}

// scatter
int MPI_Scatter(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                MPI_Datatype recvtype, int root, MPI_Comm comm) {
  mpi_counter::note(mpi_counter::seen.scatter,
                    recvbuf == MPI_IN_PLACE ? 0 : mpi_counter::bytes_of(recvcount, recvtype));
  return PMPI_Scatter(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm);
}
int MPI_Iscatter(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                 MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request* request) {
  mpi_counter::note(mpi_counter::seen.scatter,
                    recvbuf == MPI_IN_PLACE ? 0 : mpi_counter::bytes_of(recvcount, recvtype));
  return PMPI_Iscatter(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm, request);
}
int MPI_Scatterv(const void* sendbuf, const int sendcounts[], const int displs[], MPI_Datatype sendtype,
                 void* recvbuf, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
  mpi_counter::note(mpi_counter::seen.scatter,
                    recvbuf == MPI_IN_PLACE ? 0 : mpi_counter::bytes_of(recvcount, recvtype));
  return PMPI_Scatterv(sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm);
}
int MPI_Iscatterv(const void* sendbuf, const int sendcounts[], const int displs[], MPI_Datatype sendtype,
                  void* recvbuf, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm,
                  MPI_Request* request) {
  mpi_counter::note(mpi_counter::seen.scatter,
                    recvbuf == MPI_IN_PLACE ? 0 : mpi_counter::bytes_of(recvcount, recvtype));
  return PMPI_Iscatterv(sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm,
                        request);
}

// scan
int MPI_Scan(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  mpi_counter::note(mpi_counter::seen.scan, mpi_counter::bytes_of(count, datatype));
  return PMPI_Scan(sendbuf, recvbuf, count, datatype, op, comm);
}
int MPI_Iscan(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
              MPI_Request* request) {
  mpi_counter::note(mpi_counter::seen.scan, mpi_counter::bytes_of(count, datatype));
  return PMPI_Iscan(sendbuf, recvbuf, count, datatype, op, comm, request);
}
int MPI_Exscan(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
               MPI_Comm comm) {
  mpi_counter::note(mpi_counter::seen.scan, mpi_counter::bytes_of(count, datatype));
  return PMPI_Exscan(sendbuf, recvbuf, count, datatype, op, comm);
}
int MPI_Iexscan(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                MPI_Comm comm, MPI_Request* request) {
  mpi_counter::note(mpi_counter::seen.scan, mpi_counter::bytes_of(count, datatype));
  return PMPI_Iexscan(sendbuf, recvbuf, count, datatype, op, comm, request);
}

// send
int MPI_Send(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  mpi_counter::note(mpi_counter::seen.send, mpi_counter::bytes_of(count, datatype));
  return PMPI_Send(buf, count, datatype, dest, tag, comm);
}
int MPI_Ssend(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  mpi_counter::note(mpi_counter::seen.send, mpi_counter::bytes_of(count, datatype));
  return PMPI_Ssend(buf, count, datatype, dest, tag, comm);
}
int MPI_Bsend(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  mpi_counter::note(mpi_counter::seen.send, mpi_counter::bytes_of(count, datatype));
  return PMPI_Bsend(buf, count, datatype, dest, tag, comm);
}
int MPI_Rsend(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  mpi_counter::note(mpi_counter::seen.send, mpi_counter::bytes_of(count, datatype));
  return PMPI_Rsend(buf, count, datatype, dest, tag, comm);
}
int MPI_Isend(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
              MPI_Request* request) {
  mpi_counter::note(mpi_counter::seen.send, mpi_counter::bytes_of(count, datatype));
  if (const auto to = static_cast<std::size_t>(dest); to < mpi_counter::sent_to.size())
    mpi_counter::sent_to[to] += mpi_counter::bytes_of(count, datatype);
  if (const unsigned seed = mpi_counter::late_sends) {
    mpi_counter::late_sends = (seed * 1664525u + 1013904223u) | 1u;
    usleep(seed >> 21);
  }
  if (mpi_counter::synchronous_sends) return PMPI_Issend(buf, count, datatype, dest, tag, comm, request);
  return PMPI_Isend(buf, count, datatype, dest, tag, comm, request);
}
int MPI_Issend(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
               MPI_Request* request) {
  mpi_counter::note(mpi_counter::seen.send, mpi_counter::bytes_of(count, datatype));
  return PMPI_Issend(buf, count, datatype, dest, tag, comm, request);
}
int MPI_Ibsend(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
               MPI_Request* request) {
  mpi_counter::note(mpi_counter::seen.send, mpi_counter::bytes_of(count, datatype));
  return PMPI_Ibsend(buf, count, datatype, dest, tag, comm, request);
}
int MPI_Irsend(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
               MPI_Request* request) {
  mpi_counter::note(mpi_counter::seen.send, mpi_counter::bytes_of(count, datatype));
  return PMPI_Irsend(buf, count, datatype, dest, tag, comm, request);
}
int MPI_Sendrecv(const void* sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                 void* recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                 MPI_Status* status) {
  mpi_counter::note(mpi_counter::seen.send, mpi_counter::bytes_of(sendcount, sendtype));
  return PMPI_Sendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source,
                       recvtag, comm, status);
}
int MPI_Sendrecv_replace(void* buf, int count, MPI_Datatype datatype, int dest, int sendtag, int source,
                         int recvtag, MPI_Comm comm, MPI_Status* status) {
  mpi_counter::note(mpi_counter::seen.send, mpi_counter::bytes_of(count, datatype));
  return PMPI_Sendrecv_replace(buf, count, datatype, dest, sendtag, source, recvtag, comm, status);
}

// receive
int MPI_Recv(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
             MPI_Status* status) {
  mpi_counter::note(mpi_counter::seen.receive, mpi_counter::bytes_of(count, datatype));
  return PMPI_Recv(buf, count, datatype, source, tag, comm, status);
}
int MPI_Irecv(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
              MPI_Request* request) {
  mpi_counter::note(mpi_counter::seen.receive, mpi_counter::bytes_of(count, datatype));
  return PMPI_Irecv(buf, count, datatype, source, tag, comm, request);
}
int MPI_Mrecv(void* buf, int count, MPI_Datatype type, MPI_Message* message, MPI_Status* status) {
  mpi_counter::note(mpi_counter::seen.receive, mpi_counter::bytes_of(count, type));
  return PMPI_Mrecv(buf, count, type, message, status);
}
int MPI_Imrecv(void* buf, int count, MPI_Datatype type, MPI_Message* message, MPI_Request* request) {
  mpi_counter::note(mpi_counter::seen.receive, mpi_counter::bytes_of(count, type));
  return PMPI_Imrecv(buf, count, type, message, request);
}

// one_sided
int MPI_Put(const void* origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
            MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win) {
  mpi_counter::note(mpi_counter::seen.one_sided, mpi_counter::bytes_of(origin_count, origin_datatype));
  return PMPI_Put(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                  target_datatype, win);
}
int MPI_Get(void* origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
            MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win) {
  mpi_counter::note(mpi_counter::seen.one_sided, mpi_counter::bytes_of(origin_count, origin_datatype));
  return PMPI_Get(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                  target_datatype, win);
}
int MPI_Accumulate(const void* origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
                   MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Op op,
                   MPI_Win win) {
  mpi_counter::note(mpi_counter::seen.one_sided, mpi_counter::bytes_of(origin_count, origin_datatype));
  return PMPI_Accumulate(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                         target_datatype, op, win);
}
int MPI_Rput(const void* origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
             MPI_Aint target_disp, int target_cout, MPI_Datatype target_datatype, MPI_Win win,
             MPI_Request* request) {
  mpi_counter::note(mpi_counter::seen.one_sided, mpi_counter::bytes_of(origin_count, origin_datatype));
  return PMPI_Rput(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_cout,
                   target_datatype, win, request);
}
int MPI_Rget(void* origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
             MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win,
             MPI_Request* request) {
  mpi_counter::note(mpi_counter::seen.one_sided, mpi_counter::bytes_of(origin_count, origin_datatype));
  return PMPI_Rget(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                   target_datatype, win, request);
}

}  // extern "C"
