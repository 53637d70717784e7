// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A group of ranks and the collectives among them: the one seam between this library and what moves the
/// data. Each function makes one MPI call. Buffers are plain addresses and elements a `DataType`, so that
/// another transport can stand behind the same functions, chosen at run time.
///
/// @code
/// sw::Communicator all = sw::world();
/// all.all_reduce(terms, sums, count, sw::DataType::f32, sw::ReduceOp::sum);
/// @endcode

#include <numeric>

#include <shardwise/layout/index.hpp>
#include <shardwise/mesh/data_type.hpp>
#include <shardwise/mesh/mpi.hpp>
#include <shardwise/mesh/mpi_counts.hpp>
#include <shardwise/mesh/reducible.hpp>
#include <shardwise/mesh/request.hpp>

namespace shardwise {

/// A cheap handle to a communicator that the library owns; the last handle frees it, if MPI still runs. Its
/// traffic never meets that of another communicator.
///
/// Counts and offsets are in elements, one of each per rank. All throw `MpiError` where MPI reports an error,
/// `std::length_error` where a call's elements are more than an `int` counts, `std::invalid_argument` for
/// negative counts and lists of the wrong length. Input and output must not overlap, except where said. A
/// buffer without elements may be null. The `_async` twins return at once; the buffers belong to them until
/// the `Request` is complete.
class Communicator {
 public:
  /// A copy of a communicator that somebody else owns. Collective over it.
  static Communicator duplicate(MPI_Comm original) {
    MPI_Comm copy = MPI_COMM_NULL;
    detail::check_mpi(MPI_Comm_dup(original, &copy), "MPI_Comm_dup");
    return Communicator(copy);
  }

  /// The communicator of some of these ranks, in the order given. Collective over those ranks only; a rank
  /// that is not among them gets a `std::invalid_argument`.
  Communicator subgroup(std::span<const int> ranks) const {
    const auto count = static_cast<int>(ranks.size());
    if (std::find(ranks.begin(), ranks.end(), rank()) == ranks.end())
      detail::fail({"subgroup: rank ", rank(), " is not in the group; only its members may ask for it"});
    for (auto r = ranks.begin(); r != ranks.end(); ++r) {  // MPI would end the job for these
      if (*r < 0 || *r >= size()) detail::fail({"subgroup: no rank ", *r, " among ", size()});
      if (std::find(ranks.begin(), r, *r) != r) detail::fail({"subgroup: rank ", *r, " is named twice"});
    }
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group some = MPI_GROUP_NULL;
    MPI_Comm made = MPI_COMM_NULL;
    detail::check_mpi(MPI_Comm_group(native(), &all), "MPI_Comm_group");
    const int included = MPI_Group_incl(all, count, ranks.data(), &some);
    MPI_Group_free(&all);
    detail::check_mpi(included, "MPI_Group_incl");
    const int created = MPI_Comm_create_group(native(), some, 0, &made);
    MPI_Group_free(&some);
    detail::check_mpi(created, "MPI_Comm_create_group");
    return Communicator(made);
  }

  int size() const noexcept { return state_->size; }
  int rank() const noexcept { return state_->rank; }
  /// MPI's own handle, for calls that are not here. It stays ours.
  MPI_Comm native() const noexcept { return state_->comm; }

  /// out = the reduction of every rank's `in`. `in == out` works in place.
  void all_reduce(const void* in, void* out, Index count, DataType type, ReduceOp op) const {
    const int n = detail::mpi_count(count, "all_reduce");
    call("MPI_Allreduce", MPI_Allreduce, in_place(in, out), out, n, detail::mpi_type(type),
         detail::mpi_op(type, op));
  }
  [[nodiscard]] Request all_reduce_async(const void* in, void* out, Index count, DataType type,
                                         ReduceOp op) const {
    const int n = detail::mpi_count(count, "all_reduce");
    std::unique_ptr<detail::MpiCounts> lists;
    return start(lists, "MPI_Iallreduce", MPI_Iallreduce, in_place(in, out), out, n, detail::mpi_type(type),
                 detail::mpi_op(type, op));
  }

  /// The same for structs, which `M::combine` reduces. `count` is in structs.
  template <Reducible M>
  void all_reduce(const M* in, M* out, Index count) const {
    const int n = detail::mpi_count(count, "all_reduce");
    const auto& reduction = detail::MpiReduction<M>::get();
    call("MPI_Allreduce", MPI_Allreduce, in_place(in, out), out, n, reduction.type(), reduction.op());
  }

  /// out + offsets[r] = rank r's `in`, which has counts[r] elements. Counts and offsets are the same on all
  /// ranks. `in` may be this rank's place in `out`.
  void all_gather(const void* in, void* out, std::span<const Index> counts, std::span<const Index> offsets,
                  DataType type) const {
    detail::MpiCounts lists(2, size());
    const void* source = fill_gather(lists, in, out, counts, offsets, type);
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
    auto lists = std::make_unique<detail::MpiCounts>(2, size());
    const void* source = fill_gather(*lists, in, out, counts, offsets, type);
    const MPI_Datatype t = detail::mpi_type(type);
    const int mine = (*lists)[0][rank()];
    if (detail::uniform(counts, offsets)) {
      return start(lists, "MPI_Iallgather", MPI_Iallgather, source, mine, t, out, mine, t);
    }
    return start(lists, "MPI_Iallgatherv", MPI_Iallgatherv, source, mine, t, out, (*lists)[0], (*lists)[1],
                 t);
  }

  /// out = block `rank()` of the reduction of every rank's `in`, whose blocks have counts[0], counts[1], …
  /// elements: the same on all ranks. `in == out` works in place; the result is then at its beginning.
  void reduce_scatter(const void* in, void* out, std::span<const Index> counts, DataType type,
                      ReduceOp op) const {
    detail::MpiCounts lists(1, size());
    lists.fill_counts(0, counts, "reduce_scatter");
    call("MPI_Reduce_scatter", MPI_Reduce_scatter, in_place(in, out), out, lists[0], detail::mpi_type(type),
         detail::mpi_op(type, op));
  }
  [[nodiscard]] Request reduce_scatter_async(const void* in, void* out, std::span<const Index> counts,
                                             DataType type, ReduceOp op) const {
    auto lists = std::make_unique<detail::MpiCounts>(1, size());
    lists->fill_counts(0, counts, "reduce_scatter");
    return start(lists, "MPI_Ireduce_scatter", MPI_Ireduce_scatter, in_place(in, out), out, (*lists)[0],
                 detail::mpi_type(type), detail::mpi_op(type, op));
  }

  /// Sends every rank its own block of `in`, and puts what rank r sent at out + recv_offsets[r].
  void all_to_all(const void* in, std::span<const Index> send_counts, std::span<const Index> send_offsets,
                  void* out, std::span<const Index> recv_counts, std::span<const Index> recv_offsets,
                  DataType type) const {
    detail::MpiCounts lists(4, size());
    fill_exchange(lists, send_counts, send_offsets, recv_counts, recv_offsets);
    const MPI_Datatype t = detail::mpi_type(type);
    call("MPI_Alltoallv", MPI_Alltoallv, in, lists[0], lists[1], t, out, lists[2], lists[3], t);
  }
  [[nodiscard]] Request all_to_all_async(const void* in, std::span<const Index> send_counts,
                                         std::span<const Index> send_offsets, void* out,
                                         std::span<const Index> recv_counts,
                                         std::span<const Index> recv_offsets, DataType type) const {
    auto lists = std::make_unique<detail::MpiCounts>(4, size());
    fill_exchange(*lists, send_counts, send_offsets, recv_counts, recv_offsets);
    const MPI_Datatype t = detail::mpi_type(type);
    return start(lists, "MPI_Ialltoallv", MPI_Ialltoallv, in, (*lists)[0], (*lists)[1], t, out, (*lists)[2],
                 (*lists)[3], t);
  }

  /// Returns when every rank has called it.
  void barrier() const { call("MPI_Barrier", MPI_Barrier); }

  /// Whether all ranks say `ok`: so that they can throw, or stop, together. Collective: an all-reduce of four bytes.
  bool agree(bool ok) const {
    const int mine = ok ? 1 : 0;
    int all = 0;
    all_reduce(&mine, &all, 1, DataType::i32, ReduceOp::min);
    return all != 0;
  }

 private:
  struct State {
    explicit State(MPI_Comm owned) : comm(owned) {
      MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
      MPI_Comm_size(comm, &size);
      MPI_Comm_rank(comm, &rank);
    }
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
      if (!detail::mpi_finalized()) MPI_Comm_free(&comm);
    }

    MPI_Comm comm;
    int size = 0;
    int rank = 0;
  };

  explicit Communicator(MPI_Comm owned) : state_(std::make_shared<const State>(owned)) {}

  template <class F, class... Arguments>
  void call(const char* name, F function, Arguments... arguments) const {
    detail::check_mpi(function(arguments..., native()), name);
  }
  /// Takes `lists`, to which the arguments may point: they live until the request is complete.
  template <class F, class... Arguments>
  Request start(std::unique_ptr<detail::MpiCounts>& lists, const char* name, F function,
                Arguments... arguments) const {
    MPI_Request request = MPI_REQUEST_NULL;
    detail::check_mpi(function(arguments..., native(), &request), name);
    return Request(request, name, std::move(lists), state_);
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

namespace detail {

/// Where blocks of these sizes begin that lie one after another.
inline std::vector<Index> offsets_of(std::span<const Index> counts) {
  std::vector<Index> offsets(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), Index{0});
  return offsets;
}

/// All ranks' numbers, as many of each: those of rank r begin at r * mine.size(). Collective.
inline std::vector<Index> gather(const Communicator& ranks, std::span<const Index> mine) {
  const std::vector<Index> counts(static_cast<std::size_t>(ranks.size()), static_cast<Index>(mine.size()));
  std::vector<Index> all(counts.size() * mine.size());
  ranks.all_gather(mine.data(), all.data(), counts, offsets_of(counts), data_type<Index>);
  return all;
}

/// All ranks' texts, one after another, into `all`, which is as long as they are together. Collective.
inline void gather(const Communicator& ranks, std::string_view mine, std::span<const Index> lengths,
                   std::string& all) {
  ranks.all_gather(mine.data(), all.data(), lengths, offsets_of(lengths), DataType::u8);
}

}  // namespace detail
}  // namespace shardwise
