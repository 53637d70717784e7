// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Collectives as rounds of messages, which a thread can advance while its rank computes. MPI's non-blocking
/// collectives also need calls to progress, and those of Open MPI 4.1 send every byte of a sum twice in sequence.

#include <shardwise/comm/block_piece.hpp>
#include <shardwise/memory/pooled_list.hpp>

namespace shardwise::detail {

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
