// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The positions that each rank of a ring computes, and the messages between ranks: blocks of keys and values, which
/// travel from rank to rank, and halves of blocks, which ranks exchange to balance the work. On a dry mesh the same
/// code only counts.

#include <shardwise/base/bodies.hpp>
#include <shardwise/ops/attention.hpp>

namespace shardwise::detail {

/// Positions of a sequence. A block holds the first range [batch, positions, …], followed by the second.
using Ranges = Array<Range, 2>;

/// Which rank computes which positions, and needs which blocks. At step t a rank has the block of the rank t places
/// before it, if that block travels so far.
///
/// If attention is causal, later queries have more work. Then a rank keeps the first half of its block, and exchanges
/// the second with its mirror, the rank that is as far from the end. Of 2n halves of a sequence, rank r has number 2r
/// and number 2n - 1 - 2r, so all ranks have the same work at each step. With a window of less than half of the keys,
/// all ranks except the first have the same work in either order.
class RingSteps {
 public:
  /// For the rank at `at` of a mesh, with these layouts of queries and keys; `axis` is the axis of the ring.
  constexpr RingSteps(const MeshSizes& sizes, const MeshSizes& at, int axis, Index queries,
                      const Layout& queries_lie, Index keys, const Layout& keys_lie,
                      const AttentionOptions& options)
      : ranks_(sizes[axis]), self_(at[axis]), first_position_(keys - queries), options_(options) {
    if (options_.window) options_.window = std::min(*options_.window, queries + keys);  // covers all keys
    balances_ = options_.causal && (!options_.window || 2 * *options_.window > keys);
    const auto block_of = [&](Index extent, const Layout& lie, int rank) {
      MeshSizes there = at;
      there[axis] = rank;
      return range_held(extent, lie, 1, sizes, there);
    };
    const auto half = [](const Range& block, int which) {
      const Range part = balanced_block(block.size, 2, which);
      return Range{block.begin + part.begin, part.size};
    };
    const auto ranges = [&](Index extent, const Layout& lie, int rank) {
      const Range own = block_of(extent, lie, rank);
      if (!swaps(rank)) return Ranges{own, {}};
      return Ranges{half(own, 0), half(block_of(extent, lie, mirror(rank)), 1)};
    };
    for (int rank = 0; rank < ranks_; ++rank) {
      queries_.push_back(ranges(queries, queries_lie, rank));
      keys_.push_back(ranges(keys, keys_lie, rank));
    }
  }

  constexpr int block(int step) const { return (self_ - step + ranks_) % ranks_; }
  constexpr bool has(int step) const { return step < ranks_ && step <= hops(block(step)); }
  constexpr bool passes_on(int step) const { return step < hops(block(step)); }
  /// The number of steps that a block travels.
  constexpr int hops(int block) const {
    int furthest = ranks_ - 1;
    while (furthest > 0 && pairs((block + furthest) % ranks_, block) == 0) --furthest;
    return furthest;
  }
  constexpr int after(int rank, int places) const { return (rank + places) % ranks_; }
  constexpr int next() const { return after(self_, 1); }
  constexpr int previous() const { return after(self_, ranks_ - 1); }
  constexpr int self() const { return self_; }
  constexpr int ranks() const { return ranks_; }

  constexpr int mirror(int rank) const { return ranks_ - 1 - rank; }
  /// Whether a rank computes other positions than those of its block.
  constexpr bool swaps(int rank) const { return balances_ && mirror(rank) != rank; }
  constexpr const Ranges& queries_of(int rank) const { return queries_[static_cast<std::size_t>(rank)]; }
  constexpr const Ranges& keys_of(int rank) const { return keys_[static_cast<std::size_t>(rank)]; }

  /// The number of pairs of a query and a key that it sees.
  constexpr Index pairs(const Range& queries, const Range& keys) const {
    if (queries.size == 0 || keys.size == 0) return 0;
    return kernel::visible_pairs(queries.size, keys.size, first_position_ + queries.begin - keys.begin,
                                 options_.causal, options_.window);
  }
  /// The number of pairs of a rank's queries and a block that it receives.
  constexpr Index pairs(int rank, int block) const {
    Index sum = 0;
    for (const Range& own : queries_of(rank)) {
      for (const Range& seen : keys_of(block)) sum += pairs(own, seen);
    }
    return sum;
  }

 private:
  int ranks_, self_;
  Index first_position_;  // of the first query, among the keys
  AttentionOptions options_;
  bool balances_;
  std::vector<Ranges, PoolAllocator<Ranges>> queries_, keys_;  // of each rank
};

/// Two blocks of one size: keys and values, or their gradients.
struct BlockPair {
  Buffer first, second;
};
/// Blocks of some positions: of queries (these; or a result and its gradient), and of keys. Some may be null.
struct RingBlocks {
  BlockPair queries, keys;
};

/// Messages between the ranks of an axis that start together. Messages between two ranks arrive in the order in which
/// they were sent, so receivers expect them in that order.
class RingMessages {
 public:
  constexpr RingMessages(const MeshView& mesh, int axis, DataType type)
      : mesh_(mesh), along_(1u << axis), axis_(axis), type_(type) {}
  RingMessages& operator=(RingMessages&&) = delete;
  constexpr ~RingMessages() { end_flight(); }

  constexpr const MeshView& mesh() const { return mesh_; }
  /// A part of a block, which must stay untouched until `finish`. Empty parts are not sent.
  constexpr void send(const Buffer& block, Index begin, Index bytes, int to) {
    if (bytes == 0) return;
    if (Recorder* recorder = mesh_.recorder()) {
      MeshSizes there = mesh_.coordinates();
      there[axis_] = to;
      const bool other_host = !mesh_.share_host(mesh_.rank_in_job(), mesh_.place().ranks.rank(there));
      const auto event = recorder->send(mesh_.recorded(along_), bytes, other_host);
      if (sent_++ == 0) event_ = event;
    }
    add(block, begin, bytes, to, false);
  }
  constexpr void receive(const Buffer& block, Index begin, Index bytes, int from) {
    if (bytes > 0) add(block, begin, bytes, from, true);
  }
  constexpr void send(const BlockPair& pair, int to) {
    for (const Buffer& block : {pair.first, pair.second}) send(block, 0, block->bytes, to);
  }
  constexpr void receive(const BlockPair& pair, int from) {
    for (const Buffer& block : {pair.first, pair.second}) receive(block, 0, block->bytes, from);
  }
  constexpr void start() {
    if (in_flight_)
      in_flight_->request = mesh_.communicator(along_).send_and_receive(in_flight_->messages, type_);
  }
  constexpr void finish() {
    Recorder* recorder = sent_ > 0 ? mesh_.recorder() : nullptr;
    if (recorder) recorder->wait(Collective::send, mesh_.recorded(along_), event_ + sent_ - 1);
    if (in_flight_) wait();
    if (recorder) recorder->arrived(event_, std::exchange(sent_, 0));
    end_flight();
  }

 private:
  constexpr void add(const Buffer& block, Index begin, Index bytes, int rank, bool incoming) {
    if (mesh_.dry()) return;
    put({rank, static_cast<char*>(block->data) + begin, bytes / size_of(type_), static_cast<int>(type_),
         incoming});
  }
  void put(const Message& message) {
    if (!in_flight_) in_flight_ = make_pooled<MessagesInFlight>();
    in_flight_->messages->push_back(message);
  }
  void wait();
  void land() { destroy_pooled(std::exchange(in_flight_, nullptr)); }
  constexpr void end_flight() {
    if (in_flight_) land();
  }

  MeshView mesh_;
  AxisSet along_;
  int axis_;
  DataType type_;
  MessagesInFlight* in_flight_ = nullptr;
  std::int64_t event_ = 0;  // the first of those sent, in the recorder's log
  int sent_ = 0;
};

/// Rearranges a block of queries or keys from the order of positions, `in_order` [batch, positions, …], to the
/// ranges that this rank computes; with `home`, the other way. For each sequence the rank and its mirror exchange
/// messages; `from` must stay untouched while these are in flight. Returns null if `from` is null.
template <class T>
constexpr Buffer swap_halves(RingMessages& messages, int mirror, const Buffer& from,
                             const View<const T, 4>& in_order, const Ranges& ranges, bool home) {
  if (!from) return {};
  const Index batch = in_order.size[0], row = in_order.extent(2, 4) * Index{sizeof(T)},
              kept = ranges[0].size * row, given = in_order.size[1] * row - kept,
              taken = ranges[1].size * row;
  Buffer to = allocate_buffer(messages.mesh(), batch * (kept + (home ? given : taken)));
  for (Index b = 0; b < batch; ++b) {
    struct Halves {
      Index first, second, bytes;  // where they begin; bytes of the second
    };
    const Halves whole{b * (kept + given), b * (kept + given) + kept, given},
        parted{b * kept, batch * kept + b * taken, taken};
    const Halves &source = home ? parted : whole, &target = home ? whole : parted;
    if (!messages.mesh().dry()) {
      std::memcpy(static_cast<char*>(to->data) + target.first,
                  static_cast<const char*>(from->data) + source.first, static_cast<std::size_t>(kept));
    }
    messages.send(from, source.second, source.bytes, mirror);
    messages.receive(to, target.second, target.bytes, mirror);
  }
  return to;
}

#ifdef SHARDWISE_BODIES

SHARDWISE_INLINE void RingMessages::wait() {
  in_flight_->request.wait();
  for (const Message& m : *in_flight_->messages) {
    check_mpi(m.too_long ? MPI_SUCCESS : m.code, m.incoming ? "MPI_Irecv" : "MPI_Isend");
    if (!m.incoming || (!m.too_long && m.arrived == m.count && m.arrived_label == m.label)) continue;
    fail<std::runtime_error>({"ring attention: rank ", m.rank,
                              " of the axis has sent something else than the ", m.count,
                              " numbers that are expected: not all ranks are at the same call"});
  }
}

#endif

}  // namespace shardwise::detail
