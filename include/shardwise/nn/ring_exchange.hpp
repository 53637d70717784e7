// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Blocks of keys and values that go from rank to rank along an axis, so that each rank meets those that its queries see. On a
/// dry mesh the same code only counts.

#include <shardwise/ops/attention.hpp>

namespace shardwise::detail {

/// Who needs which blocks. At step t a rank has the block of the rank t places before it, as long as that goes so far.
class RingSteps {
 public:
  constexpr RingSteps(int ranks, int self, Index queries, Index keys, const AttentionOptions& options)
      : ranks_(ranks), self_(self), queries_(queries), keys_(keys), options_(options) {}

  constexpr int block(int step) const { return (self_ - step + ranks_) % ranks_; }
  constexpr bool has(int step) const { return step < ranks_ && step <= hops(block(step)); }
  constexpr bool passes_on(int step) const { return step < hops(block(step)); }
  /// Does this rank's part of the queries see a key of what it has?
  constexpr bool computes(int step) const { return sees(self_, block(step)); }
  /// How far a block goes.
  constexpr int hops(int block) const {
    int furthest = ranks_ - 1;
    while (furthest > 0 && !sees((block + furthest) % ranks_, block)) --furthest;
    return furthest;
  }
  constexpr int after(int rank, int places) const { return (rank + places) % ranks_; }
  constexpr int next() const { return after(self_, 1); }
  constexpr int previous() const { return after(self_, ranks_ - 1); }
  constexpr int self() const { return self_; }
  constexpr int ranks() const { return ranks_; }
  constexpr Range keys_of(int rank) const { return balanced_block(keys_, ranks_, rank); }

 private:
  constexpr bool sees(int rank, int block) const {
    const Range own = balanced_block(queries_, ranks_, rank), seen = keys_of(block);
    if (own.size == 0 || seen.size == 0) return false;
    const Index first = keys_ - queries_ + own.begin, last = first + own.size - 1;
    const Index reach = options_.causal ? 0 : options_.window ? *options_.window - 1 : keys_;
    return seen.begin <= last + reach && (!options_.window || seen.end() > first - (*options_.window - 1));
  }

  int ranks_, self_;
  Index queries_, keys_;
  AttentionOptions options_;
};

/// Two blocks of one size: keys and values, or their gradients.
struct BlockPair {
  Buffer first, second;
};

/// A pair of blocks from one rank of an axis to another; or two, one that goes and one that comes. What a rank sends another
/// arrives in the order in which it was sent, so receivers ask for it in that order.
class PairUnderWay {
 public:
  constexpr PairUnderWay(const MeshView& mesh, int axis, DataType type)
      : mesh_(mesh), along_(1u << axis), axis_(axis), type_(type) {}
  PairUnderWay(const PairUnderWay&) = delete;
  PairUnderWay& operator=(const PairUnderWay&) = delete;
  constexpr ~PairUnderWay() { end_flight(); }

  /// The blocks are given up until `finish`.
  constexpr void send(const BlockPair& pair, int to) {
    if (Recorder* recorder = mesh_.recorder()) {
      MeshSizes there = mesh_.coordinates();
      there[axis_] = to;
      const bool other_host = !mesh_.share_host(mesh_.rank_in_job(), mesh_.place().ranks.rank(there));
      for (const Buffer& block : {pair.first, pair.second}) {
        const auto event = recorder->send(mesh_.recorded(along_), block->bytes, other_host);
        if (event_ < 0) event_ = event;
      }
    }
    add(pair, to, false);
  }
  constexpr void receive(const BlockPair& pair, int from) { add(pair, from, true); }
  constexpr void start() {
    if (flight_) flight_->request = mesh_.communicator(along_).send_and_receive(flight_->messages, type_);
  }
  constexpr void finish() {
    Recorder* recorder = event_ >= 0 ? mesh_.recorder() : nullptr;
    if (recorder) recorder->wait(Collective::send, mesh_.recorded(along_), event_ + 1);
    if (flight_) wait();
    if (recorder) recorder->arrived(std::exchange(event_, -1), 2);
    end_flight();
  }

 private:
  struct Flight {
    std::shared_ptr<MessageList> messages = std::make_shared<MessageList>();
    Request request{};  // which ends before the messages go
  };

  constexpr void add(const BlockPair& pair, int rank, bool incoming) {
    if (mesh_.dry()) return;
    if (!flight_) flight_ = make_pooled<Flight>();
    for (const Buffer& block : {pair.first, pair.second}) {
      const Index count = block->bytes / size_of(type_);
      flight_->messages->push_back({rank, block->data, count, static_cast<int>(type_), incoming});
    }
  }
  void wait() {
    flight_->request.wait();
    for (const Message& m : *flight_->messages) {
      check_mpi(m.too_long ? MPI_SUCCESS : m.code, m.incoming ? "MPI_Irecv" : "MPI_Isend");
      if (!m.incoming || (!m.too_long && m.arrived == m.count && m.arrived_label == m.label)) continue;
      fail<std::runtime_error>({"ring attention: rank ", m.rank,
                                " of the axis has sent something else than the ", m.count,
                                " numbers that are expected: not all ranks are at the same call"});
    }
  }
  constexpr void end_flight() {
    if (flight_) destroy_pooled(std::exchange(flight_, nullptr));
  }

  MeshView mesh_;
  AxisSet along_;
  int axis_;
  DataType type_;
  Flight* flight_ = nullptr;
  std::int64_t event_ = -1;  // the first of the two that were sent, in the recorder's log
};

}  // namespace shardwise::detail
