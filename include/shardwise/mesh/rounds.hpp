// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Collectives as rounds of messages, which a thread can move on while its rank computes. MPI's own non-blocking
/// ones need as many calls, and Open MPI's (4.1) send every byte of a sum twice one after the other.
///
/// A block of the data is at home on one rank: there its terms are summed, from there it is gathered. Blocks travel
/// within the host first, to the rank in the lane of their home, then across, within the lane: so a byte goes over a
/// link as often as it must (Thakur et al., "Optimization of Collective Communication Operations in MPICH", 2005, for
/// the two halves of an all-reduce). Sums are made in the order of the ranks, beginning with one's own: the same bits in
/// every run. Those of bfloat16 are made in float, and rounded when they travel: a host's, and that of all.

#include <shardwise/memory/pooled_list.hpp>
#include <shardwise/mesh/messages.hpp>
#include <shardwise/mesh/mpi_counts.hpp>
#include <shardwise/mesh/reduced_numbers.hpp>

namespace shardwise::detail {

/// What is to be done with blocks, of which the one of rank r is at `offsets[r]`, and has `counts[r]` elements.
struct BlockWork {
  const void* in;        ///< of all blocks; or if it only gathers, of this rank's
  void* out;             ///< of all blocks; or if it only reduces, of this rank's. May begin where `in` does.
  bool gathers = false;  ///< the sums, if it reduces: an all-reduce
  std::vector<Index> counts{}, offsets{};
  MPI_Op op = MPI_OP_NULL;  ///< if it reduces
  bool sums_wide = false;   ///< bfloat16, added up in float
  Index element = 0;        ///< bytes
  MPI_Datatype type = MPI_DATATYPE_NULL;

  bool reduces() const { return op != MPI_OP_NULL; }
  const char* source() const { return static_cast<const char*>(in); }
  char* target() const { return static_cast<char*>(out); }
};

/// An all-reduce's elements are at home in blocks, one for each rank.
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
/// Memory for terms that arrive.
using Landing = std::unique_ptr<char[], GiveBack>;
/// Bytes of the pool; null for none.
inline Landing landing_of(Index bytes) {
  return {bytes > 0 ? static_cast<char*>(memory_pool().allocate(bytes)) : nullptr, GiveBack{bytes}};
}

/// A part of each block, on its way by itself.
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
  BlockPiece(const BlockPiece&) = delete;
  BlockPiece& operator=(const BlockPiece&) = delete;

  void advance() {
    while (round_ < end() && messages_.test()) {
      if (code() != MPI_SUCCESS) return;
      if (round_ == 0) sum_lane();
      if (round_ == 1) sum_block();
      messages_.next_round();
      ++round_;
      begin_round();
    }
  }
  int code() const { return messages_.code(); }
  /// Complete, or failed.
  bool done() const { return round_ == end() || code() != MPI_SUCCESS; }

 private:
  int end() const { return work_.gathers ? 4 : 2; }
  Index first(int block) const { return work_.counts[static_cast<std::size_t>(block)] * number_ / pieces_; }
  Index count(int block) const {
    return work_.counts[static_cast<std::size_t>(block)] * (number_ + 1) / pieces_ - first(block);
  }
  Index bytes(int block) const { return count(block) * work_.element; }
  /// Where the piece of a block is in a buffer of all blocks.
  Index place(int block) const {
    return (work_.offsets[static_cast<std::size_t>(block)] + first(block)) * work_.element;
  }

  int lane() const { return hosts_.lane(group_.rank); }
  int position() const { return hosts_.position(group_.rank); }
  /// The rank in this lane on a host; its blocks are those of the lane.
  int home(int host) const { return hosts_.rank_at(host, lane()); }
  Index lane_bytes() const {
    Index sum = 0;
    for (int host = 0; host < hosts_.lane_size(); ++host) sum += bytes(home(host));
    return sum;
  }

  /// 0: terms go to the ranks of this host, those of a lane's blocks to the rank in that lane; 1: they go home; 2: sums
  /// go from home to the lane; 3: and from there to the ranks of this host.
  void begin_round() {
    if (round_ == 0) exchange_within();
    if (round_ == 1) exchange_across();
    if (round_ == end()) return;
    if (round_ == 2) gather_across();
    if (round_ == 3) gather_within();
  }
  void exchange_within() {
    landing_ = landing_of(lane_bytes() * (hosts_.lanes() - 1));
    char* place_of_term = landing_.get();
    for (int other = 0; other < hosts_.lanes(); ++other) {
      if (other == lane()) continue;
      for (int host = 0; host < hosts_.lane_size(); ++host) {
        const int peer = hosts_.rank_at(position(), other), theirs = hosts_.rank_at(host, other);
        messages_.send(work_.source() + place(theirs), count(theirs), peer);
        messages_.receive(place_of_term, count(home(host)), peer);
        place_of_term += bytes(home(host));
      }
    }
  }
  /// The sums of this host, of the lane's blocks: beside one another, in the order of the hosts.
  void sum_lane() {
    if (hosts_.lanes() == 1) return;
    sums_ = landing_of(lane_bytes());
    char* sum = sums_.get();
    const char* terms = landing_.get();
    for (int host = 0; host < hosts_.lane_size(); ++host) {
      const int block = home(host);
      reduce(work_.source() + place(block), terms, lane_bytes(), hosts_.lanes() - 1, sum, count(block));
      sum += bytes(block);
      terms += bytes(block);
    }
  }
  void exchange_across() {
    const char* sum = sums_.get();
    landing_.reset();
    landing_ = landing_of(bytes(group_.rank) * (hosts_.lane_size() - 1));
    char* place_of_term = landing_.get();
    for (int host = 0; host < hosts_.lane_size(); ++host) {
      const int peer = home(host);
      if (host == position()) {
        own_ = sum ? sum : work_.source() + place(peer);
      } else {
        messages_.send(sum ? sum : work_.source() + place(peer), count(peer), peer);
        messages_.receive(place_of_term, count(group_.rank), peer);
        place_of_term += bytes(group_.rank);
      }
      if (sum) sum += bytes(peer);
    }
  }
  void sum_block() {
    char* sum = work_.target() + (work_.gathers ? place(group_.rank) : first(group_.rank) * work_.element);
    reduce(own_, landing_.get(), bytes(group_.rank), hosts_.lane_size() - 1, sum, count(group_.rank));
    landing_.reset();
    sums_.reset();
  }
  void gather_across() {
    for (int host = 0; host < hosts_.lane_size(); ++host) {
      if (host == position()) continue;
      messages_.send(work_.target() + place(group_.rank), count(group_.rank), home(host));
      messages_.receive(work_.target() + place(home(host)), count(home(host)), home(host));
    }
  }
  void gather_within() {
    for (int other = 0; other < hosts_.lanes(); ++other) {
      if (other == lane()) continue;
      for (int host = 0; host < hosts_.lane_size(); ++host) {
        const int peer = hosts_.rank_at(position(), other), theirs = hosts_.rank_at(host, other);
        messages_.send(work_.target() + place(home(host)), count(home(host)), peer);
        messages_.receive(work_.target() + place(theirs), count(theirs), peer);
      }
    }
  }

  /// sum = own, reduced with as many terms, `stride` bytes apart.
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
  Landing landing_, sums_;
  const char* own_ = nullptr;  ///< this rank's sum of its block's terms, before those of other hosts
};

/// All pieces of a collective, some at a time.
class BlockOperation final : public Operation {
 public:
  /// The group must live as long.
  BlockOperation(const MessageGroup& group, BlockWork work) : group_(group), work_(std::move(work)) {
    const Index bytes = sum_of(work_.counts) * work_.element;
    const bool over_itself =
        !work_.gathers && work_.in == work_.out;  // a sum may lie where another piece begins
    pieces_ = over_itself ? 1 : static_cast<int>(std::max<Index>(1, bytes / piece_bytes));
    tags_ = group.take_tags(pieces_);
    if (work_.reduces()) return;
    const auto own = static_cast<std::size_t>(group.rank);
    char* place = work_.target() + work_.offsets[own] * work_.element;
    const Index own_bytes = work_.counts[own] * work_.element;
    if (place != work_.in && own_bytes > 0) std::memcpy(place, work_.in, static_cast<std::size_t>(own_bytes));
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
    return under_way_.empty();
  }

 private:
  static constexpr Index piece_bytes = Index{4} << 20;
  static constexpr std::size_t most_under_way = 4;

  const MessageGroup& group_;
  BlockWork work_;
  int pieces_ = 1, begun_ = 0, tags_ = 0;
  PooledList<BlockPiece> under_way_;
};

/// Sums of bfloat16 where no rounds are needed, by two calls: an all-to-all brings all terms of a block to its home, in the
/// order of the ranks; sums are made in float, and gathered.
inline void sum_wide(Transport& ranks, const Call& call) {
  const BlockWork work = work_of(call, ranks.size());
  const auto own = static_cast<std::size_t>(ranks.rank());
  const Index count = work.counts[own];
  const std::vector<Index> arriving(work.counts.size(), count), places = offsets_of(arriving);
  const Landing landing = landing_of(count * ranks.size() * work.element);
  ranks.run({.kind = Collective::all_to_all,
             .in = work.in,
             .out = landing.get(),
             .elements = call.elements,
             .counts = work.counts,
             .offsets = work.offsets,
             .arriving = arriving,
             .places = places});
  char* sum = work.target() + (work.gathers ? work.offsets[own] * work.element : 0);
  const char* terms = landing.get();
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
