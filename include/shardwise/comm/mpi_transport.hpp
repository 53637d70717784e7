// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The transport over MPI processes. Within one host data may go through shared memory; across hosts small data use
/// MPI's collectives, large data rounds of messages.

#include <shardwise/comm/node.hpp>
#include <shardwise/comm/reduced_numbers.hpp>
#include <shardwise/comm/request.hpp>
#include <shardwise/comm/rounds.hpp>

namespace shardwise::detail {

/// A copy of a communicator; the last handle frees it if MPI is still running. Collective.
inline std::shared_ptr<const MPI_Comm> copy_of(MPI_Comm original) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(original, &copy), "MPI_Comm_dup");
  return {new MPI_Comm(copy), [](const MPI_Comm* owned) {
            MPI_Comm last = *owned;
            if (!mpi_finalized()) MPI_Comm_free(&last);
            delete owned;
          }};
}

/// A communicator of some ranks of `of`, in the order given. Collective over these. `over`: a communicator that
/// contains them and carries no other traffic, because a receive with MPI_ANY_TAG could match the messages that
/// Open MPI sends for this. The group is one of `over`'s: MPICH 4.0 crashes with an equal group of another
/// communicator.
inline MPI_Comm communicator_of(MPI_Comm of, std::span<const int> ranks, MPI_Comm over) {
  MPI_Group known = MPI_GROUP_NULL, all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
  MPI_Comm made = MPI_COMM_NULL;
  const int count = static_cast<int>(ranks.size());
  std::vector<int> there(ranks.size());
  check_mpi(MPI_Comm_group(of, &known), "MPI_Comm_group");
  check_mpi(MPI_Comm_group(over, &all), "MPI_Comm_group");
  const int translated = MPI_Group_translate_ranks(known, count, ranks.data(), all, there.data());
  MPI_Group_free(&known);
  const int included =
      translated == MPI_SUCCESS ? MPI_Group_incl(all, count, there.data(), &some) : translated;
  MPI_Group_free(&all);
  check_mpi(included, "MPI_Group_incl");
  const int created = MPI_Comm_create_group(over, some, 0, &made);
  MPI_Group_free(&some);
  check_mpi(created, "MPI_Comm_create_group");
  return made;
}

/// `mpi_count` for a list with one count per rank.
inline std::vector<int, PoolAllocator<int>> mpi_counts(std::span<const Index> counts, const char* function) {
  std::vector<int, PoolAllocator<int>> ints;
  ints.reserve(counts.size());
  for (const Index count : counts) ints.push_back(mpi_count(count, function));
  return ints;
}

/// Whether every rank has the same count and the blocks are contiguous.
inline bool uniform(Numbers counts, Numbers offsets) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != counts[0] || offsets[i] != static_cast<Index>(i) * counts[0]) return false;
  }
  return true;
}

class MpiTransport final : public Transport {
 public:
  /// Takes ownership of a communicator. Collective over it. `groups`: a copy of it or of a communicator that
  /// contains it, for creating subgroups.
  MpiTransport(MPI_Comm owned, Hosts of_ranks, std::shared_ptr<const MPI_Comm> groups)
      : Transport(rank_in(owned), std::move(of_ranks)), comm_(owned), groups_(std::move(groups)) {
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    messages_ = {MPI_COMM_NULL, rank(), &hosts()};
    if (hosts().count() > 1) MPI_Comm_dup(comm_, &messages_.comm);
    if (hosts().count() == 1) node_ = NodeCollectives::make(comm_, rank(), size());
  }
  ~MpiTransport() override {
    if (mpi_finalized()) return;
    if (messages_.comm != MPI_COMM_NULL) MPI_Comm_free(&messages_.comm);
    MPI_Comm_free(&comm_);
  }

  const char* name() const noexcept override { return node_ ? "shared memory" : "MPI"; }
  MPI_Comm native() const noexcept override { return comm_; }

  std::shared_ptr<Transport> subgroup(std::span<const int> ranks, Hosts on) override {
    return std::make_shared<MpiTransport>(communicator_of(comm_, ranks, *groups_), std::move(on), groups_);
  }

  void run(const Call& call) override {
    // Across hosts, the rounds send each byte once, in both directions at the same time.
    if (in_rounds(call, hosts())) return Request(call.name(), *begin(call), nullptr).wait();
    if (call.reduces() && size() > 2 && sums_wide(call.elements.type, call.elements.op))
      return sum_wide(*this, call);
    if (node_ && node_->takes(call)) return node_->run(call);
    if (node_) node_->agree(call);
    run_on_mpi(call);
  }

  RequestState* begin(const Call& call) override {
    if (!in_background()) return run(call), nullptr;
    if (call.kind == Collective::all_to_all) return make_pooled<ExchangeOperation>(messages_, call);
    return make_pooled<BlockOperation>(messages_, work_of(call, size()));
  }
  RequestState* begin(std::shared_ptr<MessageList> messages, DataType type) override {
    return make_pooled<MessagesOperation>(comm_, std::move(messages), type);
  }

 private:
  /// On a single host, overlap with computation gains nothing, because the cores themselves move the data.
  bool in_background() const { return hosts().count() > 1; }

  void run_on_mpi(const Call& call) const {
    if (call.kind == Collective::none) return check_mpi(MPI_Barrier(comm_), "MPI_Barrier");
    const void* in = call.in;
    const auto ints = [&](Numbers values) { return mpi_counts(values, call.name()); };
    const MPI_Datatype type = call.elements.own ? in_mpi(call.elements).type : mpi_type(call.elements.type);
    if (call.kind == Collective::all_gather) {
      const auto counts = ints(call.counts), offsets = ints(call.offsets);
      const auto own = static_cast<std::size_t>(rank());
      if (call.out && in == call.target() + call.offsets[own] * call.elements.width) in = MPI_IN_PLACE;
      if (uniform(call.counts, call.offsets)) {
        return check_mpi(MPI_Allgather(in, counts[own], type, call.out, counts[own], type, comm_),
                         "MPI_Allgather");
      }
      return check_mpi(
          MPI_Allgatherv(in, counts[own], type, call.out, counts.data(), offsets.data(), type, comm_),
          "MPI_Allgatherv");
    }
    if (call.kind == Collective::all_to_all) {
      const auto counts = ints(call.counts), offsets = ints(call.offsets), arriving = ints(call.arriving),
                 places = ints(call.places);
      return check_mpi(MPI_Alltoallv(in, counts.data(), offsets.data(), type, call.out, arriving.data(),
                                     places.data(), type, comm_),
                       "MPI_Alltoallv");
    }
    const MPI_Op op = in_mpi(call.elements).op;
    void* out = call.out;
    if (call.kind == Collective::all_reduce && in_background() && call.bytes() * size() <= least_in_rounds)
      return reduce_gathered(call, {type, op});
    if (call.kind == Collective::all_reduce) {
      if (in == out) in = MPI_IN_PLACE;
      return check_mpi(MPI_Allreduce(in, out, static_cast<int>(call.count), type, op, comm_),
                       "MPI_Allreduce");
    }
#ifdef MPICH_VERSION  // in place, it moves this rank's block by std::memcpy, also to where it overlaps itself
    std::vector<char, PoolAllocator<char>> block;
    if (in == out) {
      block.resize(
          static_cast<std::size_t>(call.counts[static_cast<std::size_t>(rank())] * call.elements.width));
      out = block.data();
    }
#endif
    if (in == out) in = MPI_IN_PLACE;
    check_mpi(MPI_Reduce_scatter(in, out, ints(call.counts).data(), type, op, comm_), "MPI_Reduce_scatter");
#ifdef MPICH_VERSION
    if (!block.empty()) std::memcpy(call.out, block.data(), block.size());
#endif
  }

  /// Few numbers among hosts, such as a norm: in the order of the ranks, so that a simulation has the same bits.
  void reduce_gathered(const Call& call, const MpiWords& words) const {
    const Index bytes = call.bytes();
    const ReceiveBuffer terms = receive_buffer(bytes * size());
    const auto count = static_cast<int>(bytes);
    check_mpi(MPI_Allgather(call.in, count, MPI_BYTE, terms.get(), count, MPI_BYTE, comm_), "MPI_Allgather");
    if (bytes > 0) std::memcpy(call.out, terms.get(), static_cast<std::size_t>(bytes));
    for (int r = 1; r < size(); ++r) {
      const int code = MPI_Reduce_local(terms.get() + r * bytes, call.out, static_cast<int>(call.count),
                                        words.type, words.op);
      check_mpi(code, "MPI_Reduce_local");
    }
  }

  MPI_Comm comm_;
  std::shared_ptr<const MPI_Comm> groups_;
  MessageGroup messages_{};
  std::unique_ptr<NodeCollectives> node_;
};

}  // namespace shardwise::detail
