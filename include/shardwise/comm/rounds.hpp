// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Collectives as rounds of messages, which a thread can advance while its rank computes. MPI's non-blocking
/// collectives also need calls to progress, and those of Open MPI 4.1 send every byte of a sum twice in sequence.
///
/// Each block has a home rank, which sums its terms and from which it is gathered. On each other host, one rank
/// keeps the block (`Hosts::keeper`): terms first travel to the keeper within the host, then their sum travels
/// home. So each byte crosses a link no more often than necessary (Thakur et al., "Optimization of Collective
/// Communication Operations in MPICH", 2005, for the two halves of an all-reduce). Each sum starts with the rank's
/// own term and adds the others in rank order, so every run gives the same bits. Sums of bfloat16 are computed in
/// float, and rounded when they are sent: once per host, and once at home.

#include <shardwise/comm/messages.hpp>
#include <shardwise/comm/reduced_numbers.hpp>
#include <shardwise/memory/pooled_list.hpp>

namespace shardwise::detail {

/// A collective on blocks; the block of rank r begins at `offsets[r]` and has `counts[r]` elements.
struct BlockWork {
  const void* in;        ///< all blocks; if it only gathers, this rank's block
  void* out;             ///< all blocks; if it only reduces, this rank's block
  bool gathers = false;  ///< with a reduction: an all-reduce
  std::vector<Index> counts{}, offsets{};
  MPI_Op op = MPI_OP_NULL;  ///< if it reduces
  bool sums_wide = false;   ///< bfloat16, summed in float
  Index element = 0;        ///< bytes per element
  MPI_Datatype type = MPI_DATATYPE_NULL;

  bool reduces() const { return op != MPI_OP_NULL; }
  const char* source() const { return static_cast<const char*>(in); }
  char* target() const { return static_cast<char*>(out); }
};

/// From this number of bytes on, an additional round costs less than sending bytes twice.
inline constexpr Index least_in_rounds = 16384;

/// Whether ranks of several hosts make this call in rounds.
inline bool in_rounds(const Call& call, const Hosts& hosts) {
  if (hosts.count() == 1 || (!call.reduces() && call.kind != Collective::all_gather)) return false;
  // MPI would round bfloat16 sums after each addition; with two terms there is only one addition.
  const bool wide = call.reduces() && hosts.size() > 2 && sums_wide(call.elements.type, call.elements.op);
  return call.background || (!call.elements.own && (wide || call.bytes() >= least_in_rounds));
}

/// The elements of an all-reduce are divided into one block per rank.
inline BlockWork work_of(const Call& call, int ranks) {
  const auto [type, op] = in_mpi(call.elements);
  const bool reduces = call.kind != Collective::all_gather;
  BlockWork work{.in = call.in,
                 .out = call.out,
                 .gathers = call.kind != Collective::reduce_scatter,
                 .counts = {call.counts.begin(), call.counts.end()},
                 .offsets = {call.offsets.begin(), call.offsets.end()},
                 .op = reduces ? op : MPI_OP_NULL,
                 .sums_wide = reduces && sums_wide(call.elements.type, call.elements.op),
                 .element = call.elements.width,
                 .type = type};
  if (call.kind == Collective::reduce_scatter) work.offsets = offsets_of(call.counts);
  for (Index rank = 0; call.kind == Collective::all_reduce && rank < ranks; ++rank) {
    work.offsets.push_back(call.count * rank / ranks);
    work.counts.push_back(call.count * (rank + 1) / ranks - work.offsets.back());
  }
  return work;
}

struct GiveBack {
  Index bytes = 0;
  void operator()(char* data) const noexcept { memory_pool().deallocate(data, bytes); }
};
using ReceiveBuffer = std::unique_ptr<char[], GiveBack>;
/// A buffer from the pool; null if `bytes` is 0.
inline ReceiveBuffer receive_buffer(Index bytes) {
  return {bytes > 0 ? static_cast<char*>(memory_pool().allocate(bytes)) : nullptr, GiveBack{bytes}};
}

/// The same part of each block, which advances independently of other parts.
class BlockPiece {
 public:
  BlockPiece(const MessageGroup& group, const BlockWork& work, int number, int pieces, int tag)
      : group_(group),
        hosts_(*group.hosts),
        work_(work),
        number_(number),
        pieces_(pieces),
        messages_(group, work.type, tag),
        round_(work.reduces() ? 0 : 2) {
    begin_round();
  }
  /// Memory is left only after a failure: messages in flight may still use it, so it is leaked.
  ~BlockPiece() {
    static_cast<void>(received_.release());
    static_cast<void>(sums_.release());
  }
  BlockPiece& operator=(BlockPiece&&) = delete;

  void advance() {
    while (round_ < end() && messages_.test()) {
      if (code() != MPI_SUCCESS) return;
      if (round_ == 0) sum_kept();
      if (round_ == 1) sum_block();
      messages_.next_round();
      ++round_;
      begin_round();
    }
  }
  int code() const { return messages_.code(); }
  bool done() const { return round_ == end() || code() != MPI_SUCCESS; }

 private:
  int end() const { return work_.gathers ? 4 : 2; }
  Index first(int block) const { return work_.counts[static_cast<std::size_t>(block)] * number_ / pieces_; }
  Index count(int block) const {
    return work_.counts[static_cast<std::size_t>(block)] * (number_ + 1) / pieces_ - first(block);
  }
  Index bytes(int block) const { return count(block) * work_.element; }
  /// The offset in bytes of this piece of a block in a buffer of all blocks.
  Index place(int block) const {
    return (work_.offsets[static_cast<std::size_t>(block)] + first(block)) * work_.element;
  }

  const std::vector<int>& here() const { return hosts_.ranks_on(hosts_.of(group_.rank)); }
  int others_here() const { return static_cast<int>(here().size()) - 1; }
  template <class F>
  void for_others_here(F f) const {
    for (const int rank : here()) {
      if (rank != group_.rank) f(rank);
    }
  }
  /// f(block) for the blocks that this rank keeps: its own, and some of other hosts.
  template <class F>
  void for_kept(F f) const {
    hosts_.for_kept(group_.rank, f);
  }
  Index kept_bytes() const {
    Index sum = 0;
    for_kept([&](int block) { sum += bytes(block); });
    return sum;
  }

  /// Round 0: terms go to the keepers on this host; 1: the keepers' sums go home; 2: results go from home to the
  /// keepers on other hosts; 3: keepers pass them on within their hosts.
  void begin_round() {
    if (round_ == 0) exchange_within();
    if (round_ == 1) exchange_across();
    if (round_ == end()) return;
    if (round_ == 2) gather_across();
    if (round_ == 3) gather_within();
  }
  void exchange_within() {
    received_ = receive_buffer(kept_bytes() * others_here());
    char* term = received_.get();
    for_others_here([&](int peer) {
      hosts_.for_kept(peer,
                      [&](int block) { messages_.send(work_.source() + place(block), count(block), peer); });
      for_kept([&](int block) {
        messages_.receive(term, count(block), peer);
        term += bytes(block);
      });
    });
  }
  /// Sums this host's terms of the blocks that this rank keeps; the sums are contiguous, like the terms.
  void sum_kept() {
    if (others_here() == 0) return;
    const Index stride = kept_bytes();
    sums_ = receive_buffer(stride);
    char* sum = sums_.get();
    const char* terms = received_.get();
    for_kept([&](int block) {
      reduce(work_.source() + place(block), terms, stride, others_here(), sum, count(block));
      sum += bytes(block);
      terms += bytes(block);
    });
  }
  void exchange_across() {
    const char* sum = sums_.get();
    for_kept([&](int block) {
      const char* of_host = sum ? sum : work_.source() + place(block);
      if (block == group_.rank) {
        own_ = of_host;
      } else {
        messages_.send(of_host, count(block), block);
      }
      if (sum) sum += bytes(block);
    });
    received_.reset();
    received_ = receive_buffer(bytes(group_.rank) * (hosts_.count() - 1));
    char* term = received_.get();
    hosts_.for_keepers(group_.rank, [&](int peer) {
      messages_.receive(term, count(group_.rank), peer);
      term += bytes(group_.rank);
    });
  }
  void sum_block() {
    char* sum = work_.target() + (work_.gathers ? place(group_.rank) : first(group_.rank) * work_.element);
    reduce(own_, received_.get(), bytes(group_.rank), hosts_.count() - 1, sum, count(group_.rank));
    received_.reset();
    sums_.reset();
  }
  void gather_across() {
    hosts_.for_keepers(group_.rank, [&](int peer) {
      messages_.send(work_.target() + place(group_.rank), count(group_.rank), peer);
    });
    for_kept([&](int block) {
      if (block != group_.rank) messages_.receive(work_.target() + place(block), count(block), block);
    });
  }
  void gather_within() {
    for_others_here([&](int peer) {
      for_kept([&](int block) { messages_.send(work_.target() + place(block), count(block), peer); });
      hosts_.for_kept(
          peer, [&](int block) { messages_.receive(work_.target() + place(block), count(block), peer); });
    });
  }

  /// sum = own reduced with `number` terms, `stride` bytes apart.
  void reduce(const char* own, const char* terms, Index stride, int number, char* sum, Index count) const {
    if (count == 0) return;
    if (work_.sums_wide) return add_bf16(count, own, terms, stride / work_.element, number, sum);
    if (sum != own) std::memmove(sum, own, static_cast<std::size_t>(count * work_.element));
    for (int term = 0; term < number; ++term) {
      MPI_Reduce_local(terms + term * stride, sum, static_cast<int>(count), work_.type, work_.op);
    }
  }

  const MessageGroup& group_;
  const Hosts& hosts_;
  const BlockWork& work_;
  int number_, pieces_;
  Messages messages_;
  int round_;
  ReceiveBuffer received_, sums_;
  const char* own_ = nullptr;  ///< this rank's block summed over its own host
};

/// All pieces of a collective, a few of them in flight at a time.
class BlockOperation final : public RequestState {
 public:
  /// The group must outlive it.
  BlockOperation(const MessageGroup& group, BlockWork work) : group_(group), work_(std::move(work)) {
    const Index bytes = sum_of(work_.counts) * work_.element;
    pieces_ = static_cast<int>(std::max<Index>(1, bytes / piece_bytes));
    tags_ = group.take_tags(pieces_);
    const auto own = static_cast<std::size_t>(group.rank);
    own_bytes_ = work_.counts[own] * work_.element;
    const Index own_place = work_.offsets[own] * work_.element;
    if (!work_.gathers && work_.in == work_.out) {
      // Pieces still have to send terms from the beginning of the buffer, so sums are kept at the position of this
      // rank's block until all pieces are done.
      in_place_ = work_.target();
      work_.out = in_place_ + own_place;
    } else if (!work_.reduces()) {
      move(work_.in, work_.target() + own_place);
    }
  }

  bool advance() override {
    for (BlockPiece& piece : under_way_) piece.advance();
    while (!under_way_.empty() && under_way_.front().done()) {
      const int code = under_way_.front().code();
      under_way_.pop_front();
      if (code != MPI_SUCCESS) return fail_with(code);
    }
    while (begun_ < pieces_ && under_way_.size() < most_under_way) {
      under_way_.emplace_back(group_, work_, begun_, pieces_, MessageGroup::tag(tags_ + begun_));
      ++begun_;
    }
    if (!under_way_.empty()) return false;
    if (in_place_) move(work_.out, in_place_);
    return true;
  }

 private:
  static constexpr Index piece_bytes = Index{4} << 20;
  static constexpr std::size_t most_under_way = 4;

  void move(const void* from, void* to) const {
    if (from != to && own_bytes_ > 0) std::memmove(to, from, static_cast<std::size_t>(own_bytes_));
  }

  const MessageGroup& group_;
  BlockWork work_;
  int pieces_ = 1, begun_ = 0, tags_ = 0;
  Index own_bytes_ = 0;
  char* in_place_ = nullptr;  ///< the final position of an in-place reduce-scatter's sums
  PooledList<BlockPiece> under_way_;
};

/// Sums of bfloat16 without rounds, in two calls: an all-to-all brings all terms of a block to its home, in rank
/// order; the home sums them in float, and the sums are gathered.
inline void sum_wide(Transport& ranks, const Call& call) {
  const BlockWork work = work_of(call, ranks.size());
  const auto own = static_cast<std::size_t>(ranks.rank());
  const Index count = work.counts[own];
  const std::vector<Index> arriving(work.counts.size(), count), places = offsets_of(arriving);
  const ReceiveBuffer received = receive_buffer(count * ranks.size() * work.element);
  ranks.run({.kind = Collective::all_to_all,
             .in = work.in,
             .out = received.get(),
             .elements = call.elements,
             .counts = work.counts,
             .offsets = work.offsets,
             .arriving = arriving,
             .places = places});
  char* sum = work.target() + (work.gathers ? work.offsets[own] * work.element : 0);
  const char* terms = received.get();
  if (count > 0) add_bf16(count, terms, terms + count * work.element, count, ranks.size() - 1, sum);
  if (!work.gathers) return;
  ranks.run({.kind = Collective::all_gather,
             .in = sum,
             .out = work.out,
             .elements = call.elements,
             .counts = work.counts,
             .offsets = work.offsets});
}

}  // namespace shardwise::detail
