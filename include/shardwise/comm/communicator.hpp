// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A group of ranks and the collectives among them.
///
/// @code
/// sw::Communicator all = sw::world();
/// all.all_reduce(terms, sums, count, sw::DataType::f32, sw::ReduceOp::sum);
/// @endcode

#include <shardwise/base/bodies.hpp>
#include <shardwise/comm/request.hpp>
#include <shardwise/comm/transport.hpp>

namespace shardwise::detail {

/// The transport over a copy of `original`; it checks calls if one of the ranks requests that. Collective.
std::shared_ptr<Transport> transport_over(MPI_Comm original);

/// Messages that were begun, and their request.
struct MessagesInFlight {
  std::shared_ptr<MessageList> messages = std::make_shared<MessageList>();
  Request request{};  // destroyed before the messages
};

}  // namespace shardwise::detail

namespace shardwise {

/// A cheap handle to the library's own communicator, whose traffic is separate from all others.
///
/// Counts and offsets are in elements, one per rank. All functions throw `MpiError` if MPI reports an error,
/// `std::length_error` if a call has more elements than an `int` can count, and `std::invalid_argument` for
/// negative counts and lists of the wrong length. Input and output must not overlap, unless stated otherwise. A
/// buffer without elements may be null. Between hosts the `_async` functions return at once; on one host they
/// return when they are complete. Their buffers must stay untouched until the `Request` is complete.
class Communicator {
 public:
  /// A copy of other code's communicator, which may be freed at once. Collective over it; so is the end of the last
  /// handle, by MPI_Comm_free, unless MPI is finalised. MPI_COMM_NULL is a `std::invalid_argument`.
  static Communicator duplicate(MPI_Comm original) { return Communicator(detail::transport_over(original)); }
  explicit Communicator(std::shared_ptr<detail::Transport> transport) : transport_(std::move(transport)) {}

  /// The communicator of some of these ranks, in the order given. Collective over those ranks only; a rank that is
  /// not among them gets a `std::invalid_argument`.
  Communicator subgroup(std::span<const int> ranks) const;

  /// The same ranks, treating ranks that pass the same `host` as sharing a host. Collective.
  Communicator on_hosts(int host) const;

  /// The same ranks, sorted by host: for a mesh whose last axes should stay within hosts. Collective, unless they are
  /// in this order already.
  Communicator by_host() const;

  /// The number of ranks, this rank's number among them, and their hosts.
  int size() const noexcept { return transport_->size(); }
  int rank() const noexcept { return transport_->rank(); }
  const Hosts& hosts() const noexcept { return transport_->hosts(); }
  /// The transport: "shared memory" among ranks of one host, unless `SHARDWISE_TRANSPORT` is `mpi`; "MPI"; or
  /// "simulation".
  const char* transport() const noexcept { return transport_->name(); }
  /// MPI's own handle, for collectives that are missing here. Do not send messages on it, and do not free it.
  /// MPI_COMM_NULL in a simulation.
  MPI_Comm native() const noexcept { return transport_->native(); }
  /// Whether ranks compare each collective first, because one of them has SHARDWISE_CHECK=1.
  bool checks() const noexcept { return transport_->checks(); }
  friend bool operator==(const Communicator& a, const Communicator& b) {
    return a.transport_ == b.transport_;
  }

  /// out = the reduction of every rank's `in`. `in == out`, on all ranks, works in place.
  void all_reduce(const void* in, void* out, Index count, DataType type, ReduceOp op) const {
    run(all_reduce_of(in, out, count, {size_of(type), type, op}));
  }
  [[nodiscard]] Request all_reduce_async(const void* in, void* out, Index count, DataType type,
                                         ReduceOp op) const {
    return begin(all_reduce_of(in, out, count, {size_of(type), type, op}));
  }
  /// The same for structs, reduced with `M::combine`. `count` is in structs.
  template <Reducible M>
  void all_reduce(const M* in, M* out, Index count) const {
    run(all_reduce_of(in, out, count, {.width = sizeof(M), .own = &detail::own_reduction<M>}));
  }

  /// out + offsets[r] = rank r's `in`, which has counts[r] elements. Counts and offsets are the same on all
  /// ranks. `in` may be this rank's place in `out`.
  void all_gather(const void* in, void* out, std::span<const Index> counts, std::span<const Index> offsets,
                  DataType type) const {
    run(all_gather_of(in, out, counts, offsets, type));
  }
  [[nodiscard]] Request all_gather_async(const void* in, void* out, std::span<const Index> counts,
                                         std::span<const Index> offsets, DataType type) const {
    return begin(all_gather_of(in, out, counts, offsets, type));
  }

  /// All ranks' numbers, as many of each: those of rank r begin at r * mine.size(). Collective.
  std::vector<Index> all_gather(std::span<const Index> mine) const;
  /// Each rank's text. Collective.
  std::vector<std::string> all_gather(std::string_view mine) const;
  /// The text of rank 0; that of other ranks does not count. Collective.
  std::string broadcast(std::string_view text) const;

  /// out = block `rank()` of the reduction of every rank's `in`, whose blocks have counts[0], counts[1], …
  /// elements: the same on all ranks. `in == out` works in place, on some ranks or all; the result is then at the
  /// beginning of the buffer.
  void reduce_scatter(const void* in, void* out, std::span<const Index> counts, DataType type,
                      ReduceOp op) const {
    run(reduce_scatter_of(in, out, counts, type, op));
  }
  [[nodiscard]] Request reduce_scatter_async(const void* in, void* out, std::span<const Index> counts,
                                             DataType type, ReduceOp op) const {
    return begin(reduce_scatter_of(in, out, counts, type, op));
  }

  /// Sends each rank its block of `in`, and writes the data from rank r to out + recv_offsets[r].
  void all_to_all(const void* in, std::span<const Index> send_counts, std::span<const Index> send_offsets,
                  void* out, std::span<const Index> recv_counts, std::span<const Index> recv_offsets,
                  DataType type) const {
    run(all_to_all_of(in, send_counts, send_offsets, out, recv_counts, recv_offsets, type));
  }
  [[nodiscard]] Request all_to_all_async(const void* in, std::span<const Index> send_counts,
                                         std::span<const Index> send_offsets, void* out,
                                         std::span<const Index> recv_counts,
                                         std::span<const Index> recv_offsets, DataType type) const {
    return begin(all_to_all_of(in, send_counts, send_offsets, out, recv_counts, recv_offsets, type));
  }

  /// Returns when every rank has called it.
  void barrier() const { run({.kind = Collective::none}); }
  /// Returns when rank 0 has called it, too. The others sleep meanwhile, for hours if need be: the watchdog does not
  /// count it as waiting. All must call it.
  void wait_for_first_rank() const;

  /// Whether all ranks pass true, so that they can throw or stop together. Collective: an all-reduce of four bytes.
  bool agree(bool ok) const {
    const int mine = ok ? 1 : 0;
    int all = 0;
    all_reduce(&mine, &all, 1, DataType::i32, ReduceOp::min);
    return all != 0;
  }
  /// Whether all ranks have the same number, such as a hash of what they are about to do. Collective: an all-reduce of
  /// 16 bytes.
  bool have_same(std::uint64_t number) const {
    const auto mine = std::bit_cast<Index>(number);
    const Index both[]{mine, ~mine};  // the least of these is the complement of the greatest
    Index least[2]{};
    all_reduce(both, least, 2, DataType::i64, ReduceOp::min);
    return least[0] == ~least[1];
  }

  /// For meshes: starts messages between ranks; not collective. Their data belong to them until the request is
  /// complete. Failures are reported in the list, not by the request. Throws `std::length_error`, before it starts
  /// any, if a message has more elements than an `int` can count.
  [[nodiscard]] Request send_and_receive(std::shared_ptr<detail::MessageList> messages, DataType type) const {
    if (messages->empty()) return {};
    for (const detail::Message& message : *messages) {
      detail::mpi_count(message.count, message.incoming ? "receive" : "send");
      if (message.rank < 0 || message.rank >= size())
        detail::fail(
            {message.incoming ? "receive: no rank " : "send: no rank ", message.rank, " among ", size()});
    }
    if (detail::sent_data) detail::sent_data->sent(*messages, size_of(type));
    return Request("messages", *transport_->begin(std::move(messages), type), transport_);
  }
  /// For meshes: the same communicator with the names of its axes, for error texts.
  Communicator along(std::string axes) const {
    Communicator named = *this;
    named.axes_ = std::move(axes);
    return named;
  }
  /// The same communicator for one collective, whose ranks must all give this number. Ranks of one host compare it.
  Communicator labelled(std::uint64_t label) const {
    Communicator made = *this;
    made.label_ = label;
    return made;
  }

 private:
  using Numbers = detail::Numbers;
  using Call = detail::Call;

  static Call all_reduce_of(const void* in, void* out, Index count, const detail::Elements& elements) {
    detail::mpi_count(count, "all_reduce");
    return {.kind = Collective::all_reduce, .in = in, .out = out, .elements = elements, .count = count};
  }
  Call all_gather_of(const void* in, void* out, Numbers counts, Numbers offsets, DataType type) const {
    check_counts(counts, "all_gather");
    check_list(offsets, "all_gather");
    return {.kind = Collective::all_gather,
            .in = in,
            .out = out,
            .elements = {size_of(type), type},
            .counts = counts,
            .offsets = offsets};
  }
  Call reduce_scatter_of(const void* in, void* out, Numbers counts, DataType type, ReduceOp op) const {
    check_counts(counts, "reduce_scatter");
    return {.kind = Collective::reduce_scatter,
            .in = in,
            .out = out,
            .elements = {size_of(type), type, op},
            .counts = counts};
  }
  Call all_to_all_of(const void* in, Numbers send_counts, Numbers send_offsets, void* out,
                     Numbers recv_counts, Numbers recv_offsets, DataType type) const {
    check_counts(send_counts, "all_to_all");
    check_list(send_offsets, "all_to_all");
    check_counts(recv_counts, "all_to_all");
    check_list(recv_offsets, "all_to_all");
    return {.kind = Collective::all_to_all,
            .in = in,
            .out = out,
            .elements = {size_of(type), type},
            .counts = send_counts,
            .offsets = send_offsets,
            .arriving = recv_counts,
            .places = recv_offsets};
  }
  /// Checks one value per rank, each of which fits an `int`.
  void check_list(Numbers values, const char* function) const {
    if (values.size() != static_cast<std::size_t>(size()))
      detail::fail({function, ": ", values.size(), " counts or offsets for ", size(), " ranks"});
    for (const Index value : values) detail::mpi_count(value, function);
  }
  /// Checks their sum too: MPI sums them in an int.
  void check_counts(Numbers counts, const char* function) const {
    check_list(counts, function);
    detail::mpi_count(detail::sum_of(counts), function);
  }

  void run(Call call) const;
  Request begin(Call call) const;

  std::shared_ptr<detail::Transport> transport_;
  std::string axes_;
  std::uint64_t label_ = 0;
};

namespace detail {

/// The texts of all ranks, one after another. Collective.
std::string gather_texts(const Communicator& ranks, std::string_view mine);

/// All the ranks of a simulation, if this thread is one of them.
inline constinit thread_local const Communicator* simulated_world = nullptr;

Communicator ranks_of_job();

}  // namespace detail

/// All the ranks of the job, sorted by host, so that the last axes of a mesh stay within hosts as far as they fit. Rank
/// 0 is the launcher's; others have the launcher's numbers if it fills one host after another. The first call is
/// collective, because it copies MPI_COMM_WORLD; later calls are free. Throws `std::runtime_error` unless MPI is
/// running or this is a rank of a simulation.
inline Communicator world() {
  return detail::simulated_world ? *detail::simulated_world : detail::ranks_of_job();
}

/// This rank alone: a new communicator with each call. Throws as `world` does, which all ranks must have called before.
inline Communicator self() {
  const Communicator all = world();
  return all.subgroup(std::array{all.rank()});
}

}  // namespace shardwise

#ifdef SHARDWISE_BODIES
#include <shardwise/comm/checked_transport.hpp>
#include <shardwise/comm/mpi_transport.hpp>

namespace shardwise {

SHARDWISE_INLINE Communicator Communicator::subgroup(std::span<const int> ranks) const {
  if (std::find(ranks.begin(), ranks.end(), rank()) == ranks.end())
    detail::fail({"subgroup: rank ", rank(), " is not in the group; only its members may ask for it"});
  for (auto r = ranks.begin(); r != ranks.end(); ++r) {  // MPI would abort the job
    if (*r < 0 || *r >= size()) detail::fail({"subgroup: no rank ", *r, " among ", size()});
    if (std::find(ranks.begin(), r, *r) != r) detail::fail({"subgroup: rank ", *r, " is named twice"});
  }
  std::vector<int> on;
  for (const int r : ranks) on.push_back(hosts().of(r));
  const detail::Waiting here("the making of a communicator", 0, "");
  return Communicator(transport_->subgroup(ranks, Hosts(on)));
}

SHARDWISE_INLINE Communicator Communicator::on_hosts(int host) const {
  std::vector<int> all(static_cast<std::size_t>(size())), on(all.size());
  std::iota(all.begin(), all.end(), 0);
  const std::vector<Index> one(all.size(), 1), places(all.begin(), all.end());
  all_gather(&host, on.data(), one, places, DataType::i32);
  return Communicator(transport_->subgroup(all, Hosts(on)));
}

SHARDWISE_INLINE Communicator Communicator::by_host() const {
  std::vector<int> ranks;
  for (int host = 0; host < hosts().count(); ++host) {
    const std::vector<int>& here = hosts().ranks_on(host);
    ranks.insert(ranks.end(), here.begin(), here.end());
  }
  return std::is_sorted(ranks.begin(), ranks.end()) ? *this : subgroup(ranks);
}

SHARDWISE_INLINE std::vector<Index> Communicator::all_gather(std::span<const Index> mine) const {
  const std::vector<Index> counts(static_cast<std::size_t>(size()), static_cast<Index>(mine.size()));
  std::vector<Index> all(counts.size() * mine.size());
  all_gather(mine.data(), all.data(), counts, detail::offsets_of(counts), data_type<Index>);
  return all;
}

SHARDWISE_INLINE std::vector<std::string> Communicator::all_gather(std::string_view mine) const {
  const Index bytes[]{static_cast<Index>(mine.size())};
  const std::vector<Index> lengths = all_gather(bytes);
  std::string all(static_cast<std::size_t>(detail::sum_of(lengths)), '\0');
  all_gather(mine.data(), all.data(), lengths, detail::offsets_of(lengths), DataType::u8);
  std::vector<std::string> texts;
  for (std::size_t begin = 0; texts.size() < lengths.size(); begin += texts.back().size())
    texts.push_back(all.substr(begin, static_cast<std::size_t>(lengths[texts.size()])));
  return texts;
}

SHARDWISE_INLINE std::string Communicator::broadcast(std::string_view text) const {
  return all_gather(rank() == 0 ? text : std::string_view()).front();
}

SHARDWISE_INLINE void Communicator::wait_for_first_rank() const {
  // Messages, because on one host a collective in the background waits already when it begins; then the watchdog
  // would end a job that is idle.
  std::int32_t number = 0;
  const auto messages = std::make_shared<detail::MessageList>();
  const bool incoming = rank() != 0;
  for (int other = incoming ? 0 : 1; other < (incoming ? 1 : size()); ++other)
    messages->push_back({.rank = other, .data = &number, .count = 1, .label = 0, .incoming = incoming});
  Request all = send_and_receive(messages, DataType::i32);
  for (double nap = 1e-3; incoming && !all.test(); nap = std::min(2 * nap, 2e-2)) detail::sleep_for(nap);
  all.wait();
  for (const detail::Message& message : *messages)
    detail::check_mpi(message.code, "a message of the first rank");
}

SHARDWISE_INLINE void Communicator::run(Call call) const {
  const detail::Waiting here(call.name(), call.bytes(), axes_);
  call.axes = axes_.c_str();
  call.label = label_;
  if (detail::sent_data) detail::sent_data->sent(call, rank());
  transport_->run(call);
}

SHARDWISE_INLINE Request Communicator::begin(Call call) const {
  const detail::Waiting here(call.name(), call.bytes(), axes_);
  call.axes = axes_.c_str();
  call.label = label_;
  call.background = true;
  if (detail::sent_data) detail::sent_data->sent(call, rank());
  detail::RequestState* operation = transport_->begin(call);
  return operation ? Request(call.name(), *operation, transport_, call.bytes()) : Request();
}

namespace detail {

SHARDWISE_INLINE std::string gather_texts(const Communicator& ranks, std::string_view mine) {
  std::string all;
  for (const std::string& text : ranks.all_gather(mine)) all += text;
  return all;
}

SHARDWISE_INLINE std::shared_ptr<Transport> transport_over(MPI_Comm original) {
  if (original == MPI_COMM_NULL) {
    throw std::invalid_argument(
        "Communicator::duplicate: MPI_COMM_NULL has no ranks; MPI_Comm_split gives it to ranks without a "
        "color");
  }
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(original, &copy), "MPI_Comm_dup");
  std::shared_ptr<Transport> made = std::make_shared<MpiTransport>(copy, hosts_of(copy), copy_of(original));
  int wanted = checks_wanted() ? 1 : 0, all = 0;
  check_mpi(PMPI_Allreduce(&wanted, &all, 1, MPI_INT, MPI_MAX, copy), "MPI_Allreduce");
  if (all != 0) made = std::make_shared<CheckedTransport>(std::move(made));
  return made;
}

SHARDWISE_INLINE Communicator ranks_of_job() {
  if (!mpi_initialized())
    throw std::runtime_error(
        "MPI is not initialised: call this inside shardwise::run, or make a shardwise::Environment first");
  if (mpi_finalized())
    throw std::runtime_error(
        "MPI is finalised already: call this inside shardwise::run, or while the shardwise::Environment "
        "lives");
  static const Communicator all = Communicator::duplicate(MPI_COMM_WORLD).by_host();
  return all;
}

}  // namespace detail
}  // namespace shardwise
#endif
