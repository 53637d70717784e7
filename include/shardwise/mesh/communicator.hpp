// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A group of ranks and the collectives among them: the one seam between this library and what moves the data. Among ranks
/// of one host that is their memory; across hosts small data are MPI's, large ones go in rounds of messages.
///
/// @code
/// sw::Communicator all = sw::world();
/// all.all_reduce(terms, sums, count, sw::DataType::f32, sw::ReduceOp::sum);
/// @endcode

#include <shardwise/layout/index.hpp>
#include <shardwise/mesh/data_type.hpp>
#include <shardwise/mesh/mpi.hpp>
#include <shardwise/mesh/mpi_counts.hpp>
#include <shardwise/mesh/node.hpp>
#include <shardwise/mesh/reducible.hpp>
#include <shardwise/mesh/request.hpp>
#include <shardwise/mesh/rounds.hpp>

namespace shardwise {

/// A cheap handle to a communicator of the library's own. Its traffic never meets that of another.
///
/// Counts and offsets are in elements, one of each per rank. All throw `MpiError` where MPI reports an error,
/// `std::length_error` where a call's elements are more than an `int` counts, `std::invalid_argument` for
/// negative counts and lists of the wrong length. Input and output must not overlap, except where said. A
/// buffer without elements may be null. The `_async` twins return at once; the buffers belong to them until
/// the `Request` is complete.
class Communicator {
 public:
  /// A copy of a communicator that somebody else owns. Collective over it. `host`: a number that is the same on ranks
  /// that share a host, and none is negative; where no rank gives one, MPI says what they share.
  static Communicator duplicate(MPI_Comm original, int host = -1) {
    MPI_Comm copy = MPI_COMM_NULL;
    detail::check_mpi(MPI_Comm_dup(original, &copy), "MPI_Comm_dup");
    return Communicator(copy, detail::hosts_of(copy, host), detail::copy_of(original));
  }

  /// The communicator of some of these ranks, in the order given. Collective over those ranks only; a rank
  /// that is not among them gets a `std::invalid_argument`.
  Communicator subgroup(std::span<const int> ranks) const {
    if (std::find(ranks.begin(), ranks.end(), rank()) == ranks.end())
      detail::fail({"subgroup: rank ", rank(), " is not in the group; only its members may ask for it"});
    for (auto r = ranks.begin(); r != ranks.end(); ++r) {  // MPI would end the job for these
      if (*r < 0 || *r >= size()) detail::fail({"subgroup: no rank ", *r, " among ", size()});
      if (std::find(ranks.begin(), r, *r) != r) detail::fail({"subgroup: rank ", *r, " is named twice"});
    }
    std::vector<int> ids;
    for (const int r : ranks) ids.push_back(hosts().of(r));
    const MPI_Comm made = detail::communicator_of(native(), ranks, *state_->groups);
    return Communicator(made, Hosts(ids), state_->groups);
  }

  /// The same ranks, those of a host together: for a mesh whose last axes are to stay within hosts. Collective.
  Communicator by_host() const {
    std::vector<int> ranks;
    for (int host = 0; host < hosts().count(); ++host) {
      for (int r = 0; r < size(); ++r) {
        if (hosts().of(r) == host) ranks.push_back(r);
      }
    }
    return subgroup(ranks);
  }

  int size() const noexcept { return state_->hosts.size(); }
  int rank() const noexcept { return state_->rank; }
  /// Which of them share a host.
  const Hosts& hosts() const noexcept { return state_->hosts; }
  /// What moves the data: "shared memory", where the ranks share a host, or "MPI".
  const char* transport() const noexcept { return state_->node() ? "shared memory" : "MPI"; }
  /// MPI's own handle, for collectives that are not here: messages on it are the library's. It stays ours.
  MPI_Comm native() const noexcept { return state_->comm; }

  /// out = the reduction of every rank's `in`. `in == out` works in place.
  void all_reduce(const void* in, void* out, Index count, DataType type, ReduceOp op) const {
    const int n = detail::mpi_count(count, "all_reduce");
    if (by_rounds(count * size_of(type), sums_wide(type, op)))
      return all_reduce_async(in, out, count, type, op).wait();
    if (sums_wide(type, op)) return detail::sum_wide(*this, detail::all_reduce_of(in, out, count, size()));
    if (auto* node = state_->node()) return node->all_reduce(in, out, count, reduction(type, op));
    call("MPI_Allreduce", MPI_Allreduce, in_place(in, out), out, n, detail::mpi_type(type),
         detail::mpi_op(type, op));
  }
  [[nodiscard]] Request all_reduce_async(const void* in, void* out, Index count, DataType type,
                                         ReduceOp op) const {
    if (!in_background()) return all_reduce(in, out, count, type, op), Request();
    detail::mpi_count(count, "all_reduce");
    return start("all_reduce", detail::all_reduce_of(in, out, count, size()), type, &op);
  }

  /// The same for structs, which `M::combine` reduces. `count` is in structs.
  template <Reducible M>
  void all_reduce(const M* in, M* out, Index count) const {
    const int n = detail::mpi_count(count, "all_reduce");
    const auto& reduction = detail::MpiReduction<M>::get();
    if (auto* node = state_->node(sizeof(M)))
      return node->all_reduce(in, out, count, {reduction.type(), reduction.op(), sizeof(M)});
    call("MPI_Allreduce", MPI_Allreduce, in_place(in, out), out, n, reduction.type(), reduction.op());
  }

  /// out + offsets[r] = rank r's `in`, which has counts[r] elements. Counts and offsets are the same on all
  /// ranks. `in` may be this rank's place in `out`.
  void all_gather(const void* in, void* out, std::span<const Index> counts, std::span<const Index> offsets,
                  DataType type) const {
    if (by_rounds(detail::sum_of(counts) * size_of(type))) {
      return all_gather_async(in, out, counts, offsets, type).wait();
    }
    detail::MpiCounts lists(2, size());
    const void* source = fill_gather(lists, in, out, counts, offsets, type);
    if (auto* node = state_->node(); node && node->gathers(counts, size_of(type)))
      return node->all_gather(in, out, counts, offsets, size_of(type));
    const MPI_Datatype t = detail::mpi_type(type);
    const int mine = lists[0][rank()];
    if (detail::uniform(counts, offsets)) {
      call("MPI_Allgather", MPI_Allgather, source, mine, t, out, mine, t);
    } else {
      call("MPI_Allgatherv", MPI_Allgatherv, source, mine, t, out, lists[0], lists[1], t);
    }
  }
  [[nodiscard]] Request all_gather_async(const void* in, void* out, std::span<const Index> counts,
                                         std::span<const Index> offsets, DataType type) const {
    if (!in_background()) return all_gather(in, out, counts, offsets, type), Request();
    detail::MpiCounts lists(2, size());
    fill_gather(lists, in, out, counts, offsets, type);
    return start("all_gather",
                 {.in = in,
                  .out = out,
                  .gathers = true,
                  .counts = {counts.begin(), counts.end()},
                  .offsets = {offsets.begin(), offsets.end()}},
                 type);
  }

  /// out = block `rank()` of the reduction of every rank's `in`, whose blocks have counts[0], counts[1], …
  /// elements: the same on all ranks. `in == out` works in place; the result is then at its beginning.
  void reduce_scatter(const void* in, void* out, std::span<const Index> counts, DataType type,
                      ReduceOp op) const {
    if (by_rounds(detail::sum_of(counts) * size_of(type), sums_wide(type, op))) {
      return reduce_scatter_async(in, out, counts, type, op).wait();
    }
    detail::MpiCounts lists(1, size());
    lists.fill_counts(0, counts, "reduce_scatter");
    if (sums_wide(type, op)) return detail::sum_wide(*this, detail::reduce_scatter_of(in, out, counts));
    if (auto* node = state_->node()) return node->reduce_scatter(in, out, counts, reduction(type, op));
    call("MPI_Reduce_scatter", MPI_Reduce_scatter, in_place(in, out), out, lists[0], detail::mpi_type(type),
         detail::mpi_op(type, op));
  }
  [[nodiscard]] Request reduce_scatter_async(const void* in, void* out, std::span<const Index> counts,
                                             DataType type, ReduceOp op) const {
    if (!in_background()) return reduce_scatter(in, out, counts, type, op), Request();
    detail::MpiCounts lists(1, size());
    lists.fill_counts(0, counts, "reduce_scatter");
    return start("reduce_scatter", detail::reduce_scatter_of(in, out, counts), type, &op);
  }

  /// Sends every rank its own block of `in`, and puts what rank r sent at out + recv_offsets[r].
  void all_to_all(const void* in, std::span<const Index> send_counts, std::span<const Index> send_offsets,
                  void* out, std::span<const Index> recv_counts, std::span<const Index> recv_offsets,
                  DataType type) const {
    detail::MpiCounts lists(4, size());
    fill_exchange(lists, send_counts, send_offsets, recv_counts, recv_offsets);
    if (auto* node = state_->node())
      return node->all_to_all(in, send_counts, send_offsets, out, recv_counts, recv_offsets, size_of(type));
    const MPI_Datatype t = detail::mpi_type(type);
    call("MPI_Alltoallv", MPI_Alltoallv, in, lists[0], lists[1], t, out, lists[2], lists[3], t);
  }
  [[nodiscard]] Request all_to_all_async(const void* in, std::span<const Index> send_counts,
                                         std::span<const Index> send_offsets, void* out,
                                         std::span<const Index> recv_counts,
                                         std::span<const Index> recv_offsets, DataType type) const {
    if (!in_background()) {
      all_to_all(in, send_counts, send_offsets, out, recv_counts, recv_offsets, type);
      return {};
    }
    detail::MpiCounts lists(4, size());
    fill_exchange(lists, send_counts, send_offsets, recv_counts, recv_offsets);
    auto& operation = *make_pooled<detail::ExchangeOperation>(
        state_->messages, static_cast<const char*>(in), send_counts, send_offsets, static_cast<char*>(out),
        recv_counts, recv_offsets, size_of(type), detail::mpi_type(type));
    return Request("all_to_all", operation, state_);
  }

  /// Returns when every rank has called it.
  void barrier() const {
    if (auto* node = state_->node()) return node->barrier();
    call("MPI_Barrier", MPI_Barrier);
  }

  /// Whether all ranks say `ok`: so that they can throw, or stop, together. Collective: an all-reduce of four bytes.
  bool agree(bool ok) const {
    const int mine = ok ? 1 : 0;
    int all = 0;
    all_reduce(&mine, &all, 1, DataType::i32, ReduceOp::min);
    return all != 0;
  }

 private:
  struct State {
    State(MPI_Comm owned, Hosts of_ranks, std::shared_ptr<const MPI_Comm> to_make_groups)
        : comm(owned), groups(std::move(to_make_groups)), hosts(std::move(of_ranks)) {
      MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
      MPI_Comm_rank(comm, &rank);
      messages = {MPI_COMM_NULL, rank, &hosts};
      if (hosts.count() > 1) MPI_Comm_dup(comm, &messages.comm);
      if (hosts.count() == 1) node_ = detail::NodeTransport::make(comm, rank, hosts.size());
    }
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
      if (detail::mpi_finalized()) return;
      if (messages.comm != MPI_COMM_NULL) MPI_Comm_free(&messages.comm);
      MPI_Comm_free(&comm);
    }

    MPI_Comm comm;
    std::shared_ptr<const MPI_Comm> groups;
    int rank = 0;
    Hosts hosts;
    detail::MessageGroup messages{};
    /// What moves elements of so many bytes; null where MPI does.
    detail::NodeTransport* node(Index width = 1) const {
      return node_ && node_->takes(width) ? node_.get() : nullptr;
    }

   private:
    std::unique_ptr<detail::NodeTransport> node_;
  };
  /// Bytes from which on a second round costs less than sending bytes twice.
  static constexpr Index rounds_from = 16384;

  Communicator(MPI_Comm owned, Hosts hosts, std::shared_ptr<const MPI_Comm> groups)
      : state_(std::make_shared<const State>(owned, std::move(hosts), std::move(groups))) {}

  template <class F, class... Arguments>
  void call(const char* name, F function, Arguments... arguments) const {
    detail::check_mpi(function(arguments..., native()), name);
  }
  /// Where ranks share a host nothing is gained beside a computation: it is the cores that move the data.
  bool in_background() const { return state_->hosts.count() > 1; }
  /// Across hosts our rounds are those that send each byte once, in both directions at a time.
  bool by_rounds(Index bytes, bool sums_wide = false) const {
    return in_background() && (bytes >= rounds_from || sums_wide);
  }
  /// Sums that MPI would round after each addition. Of two terms there is one.
  bool sums_wide(DataType type, ReduceOp op) const { return size() > 2 && detail::sums_wide(type, op); }
  Request start(const char* name, detail::BlockWork work, DataType type, const ReduceOp* op = nullptr) const {
    work.element = size_of(type);
    work.type = detail::mpi_type(type);
    if (op) {
      work.op = detail::mpi_op(type, *op);
      work.sums_wide = detail::sums_wide(type, *op);
    }
    return Request(name, *make_pooled<detail::BlockOperation>(state_->messages, std::move(work)), state_);
  }

  static detail::ElementReduction reduction(DataType type, ReduceOp op) {
    return {detail::mpi_type(type), detail::mpi_op(type, op), size_of(type)};
  }
  static const void* in_place(const void* in, const void* out) { return in == out ? MPI_IN_PLACE : in; }

  /// Returns `in`, or MPI_IN_PLACE where it is this rank's block of `out`.
  const void* fill_gather(detail::MpiCounts& lists, const void* in, const void* out,
                          std::span<const Index> counts, std::span<const Index> offsets,
                          DataType type) const {
    lists.fill_counts(0, counts, "all_gather");
    lists.fill(1, offsets, "all_gather");
    const Index offset = offsets[static_cast<std::size_t>(rank())] * size_of(type);
    return out == nullptr ? in : in_place(in, static_cast<const char*>(out) + offset);
  }
  static void fill_exchange(detail::MpiCounts& lists, std::span<const Index> send_counts,
                            std::span<const Index> send_offsets, std::span<const Index> recv_counts,
                            std::span<const Index> recv_offsets) {
    lists.fill_counts(0, send_counts, "all_to_all");
    lists.fill(1, send_offsets, "all_to_all");
    lists.fill_counts(2, recv_counts, "all_to_all");
    lists.fill(3, recv_offsets, "all_to_all");
  }

  std::shared_ptr<const State> state_;
};

/// All the ranks of the job. Its first call is collective, as it copies MPI_COMM_WORLD; later ones are free.
/// Throws `std::runtime_error` unless MPI is running.
inline Communicator world() {
  if (!detail::mpi_initialized())
    throw std::runtime_error(
        "MPI is not initialised: call this inside shardwise::run, or make a "
        "shardwise::Environment first");
  if (detail::mpi_finalized())
    throw std::runtime_error(
        "MPI is finalised already: call this inside shardwise::run, or while the "
        "shardwise::Environment lives");
  static const Communicator all = Communicator::duplicate(MPI_COMM_WORLD);
  return all;
}

}  // namespace shardwise
