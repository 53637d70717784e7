// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Many tensors that change their layout in the same way, in one collective: gradients of a bucket, parameters of a
/// unit. Buckets can be in flight while others are filled.

#include <shardwise/tensor/exchange.hpp>

namespace shardwise::detail {

/// A completion handler for a tensor.
class CompletionHandler : public Pooled<CompletionHandler>, public Counted {
 public:
  constexpr virtual void arrived(AnyTensor&& tensor) = 0;
};

/// A completion handler that calls done(tensor).
template <class F>
constexpr Shared<CompletionHandler> on_completion(F done) {
  class Done final : public CompletionHandler {
   public:
    constexpr explicit Done(F f) : done_(std::move(f)) {}
    constexpr void arrived(AnyTensor&& tensor) override { done_(std::move(tensor)); }

   private:
    F done_;
  };
  return Shared<Done>::make(std::move(done));
}

class Bucket {
 public:
  constexpr Bucket(const MeshView& mesh, DataType type, const ExchangeWay& way, Phase phase)
      : exchange_(mesh, type, way), phase_(phase) {}

  constexpr bool goes(const MeshView& mesh, DataType type, const ExchangeWay& way, Phase phase) const {
    return exchange_.mesh() == mesh && exchange_.type() == type && exchange_.way() == way && phase_ == phase;
  }
  /// The bytes to communicate on the first rank of the mesh, which has the largest blocks: the same number on every
  /// rank.
  constexpr Index most() const { return most_; }

  constexpr void add(AnyTensor&& from, AnyTensor&& to, Index most, Shared<CompletionHandler>&& arrival) {
    most_ += most;
    exchange_.add(std::move(from), to);
    if (arrival) deliveries_.emplace_back(std::move(to), std::move(arrival));
  }

  constexpr void start(bool background) {
    // If this rank has no elements, neither have the others on these axes. In an all-to-all, though, a rank without
    // elements to send may receive some.
    moves_ = exchange_.way().kind == Collective::all_to_all ? most_ > 0 : exchange_.elements() > 0;
    if (!moves_) return;
    PhaseScope phase(exchange_.mesh().recorder(), phase_);
    exchange_.start(background);
  }
  /// Waits, and calls the completion handlers.
  constexpr void finish() {
    if (moves_) exchange_.finish();
    while (!deliveries_.empty()) {
      PooledList<Delivery> told;
      Delivery& delivery = deliveries_.move_to(told, deliveries_.front());
      delivery.arrival->arrived(std::move(delivery.tensor));
    }
  }

 private:
  struct Delivery {
    AnyTensor tensor;
    Shared<CompletionHandler> arrival;
  };

  Exchange exchange_;
  Phase phase_;
  Index most_ = 0;
  bool moves_ = false;
  PooledList<Delivery> deliveries_;
};

/// Buckets are started when they are full and complete later, in the same order on every rank. So the decisions when a
/// bucket is full and how many are in flight use only numbers that are equal on all ranks, even if blocks are uneven or
/// empty. A completion handler may add to other buckets, whose contents must be the same on all ranks of a group.
class Buckets {
 public:
  /// A bucket of several tensors holds at most `most_bytes`; a larger tensor is sent alone, without a copy.
  /// `background`: the number of buckets that may be in flight; 0: communicate in the foreground.
  constexpr Buckets(Index most_bytes, int background) : most_bytes_(most_bytes), background_(background) {}

  /// Communicates `from` into `to`, with elements sent as `travels`: gathers or exchanges sharded blocks, and
  /// reduces pending sums, whole (then `to` may share the block of `from`) or sharded. Returns false if no block
  /// changes, because the layouts differ at most on axes of one rank.
  constexpr bool add(const AnyTensor& from, const AnyTensor& to, DataType travels, MemoryUse use, Phase phase,
                     Shared<CompletionHandler> arrival = {}) {
    const AxisSet axes = changed_axes(from.layout, to.layout, from.mesh.sizes());
    if (axes == 0) return false;
    put(AnyTensor(from), AnyTensor(to),
        {collective_for(from.layout, to.layout, axes), axes, ReduceOp::sum, use}, travels, phase,
        std::move(arrival));
    return true;
  }

  /// Changes the layout of `from` as `add` does. Returns the same block if nothing changes or if it is reduced
  /// whole, which is done in place (in a copy if other handles share it); else a new block, counted as `use`. With
  /// a completion handler, returns an empty tensor: the handler gets the only handle, possibly at once.
  constexpr AnyTensor carry(AnyTensor&& from, const Layout& to, DataType travels, MemoryUse use, Phase phase,
                            Shared<CompletionHandler> arrival = {}) {
    const AxisSet axes = changed_axes(from.layout, to, from.mesh.sizes());
    if (axes == 0) {
      from.layout = to;
      if (!arrival) return from;
      arrival->arrived(std::move(from));
      return {};
    }
    const ExchangeWay way{collective_for(from.layout, to, axes), axes, ReduceOp::sum, MemoryUse::gathered};
    AnyTensor result;
    if (way.kind == Collective::all_reduce) {
      make_own(from, use);
      result = from.with_layout(to);
    } else {
      result = from.unwritten(to, use);
    }
    AnyTensor seen;
    if (!arrival) seen = result;
    put(std::move(from), std::move(result), way, travels, phase, std::move(arrival));
    return seen;
  }

  /// Starts the buckets that are not full.
  constexpr void start() {
    while (!open_.empty()) begin(open_.move_to(under_way_, open_.front()));
  }
  /// Starts all buckets, and returns when one more is complete.
  [[gnu::noinline]] constexpr void finish_next() {
    start();
    if (!under_way_.empty()) finish_first();
  }
  /// Starts all buckets, and returns when all are complete, including those that completion handlers add.
  constexpr void finish() {
    while (!idle()) finish_next();
  }
  constexpr bool goes_alone(const AnyTensor& tensor, DataType travels) const {
    return message_bytes(tensor, travels) > most_bytes_;
  }
  constexpr bool idle() const { return open_.empty() && under_way_.empty(); }

 private:
  /// On the first rank of the mesh.
  static constexpr Index message_bytes(const AnyTensor& tensor, DataType travels) {
    return tensor.box_at(MeshSizes{}).elements() * size_of(travels);
  }
  static constexpr Collective collective_for(const Layout& from, const Layout& to, AxisSet axes) {
    bool cuts = false, sums = false;
    for (int axis = 0; axis < from.axes; ++axis) {
      if ((axes >> axis & 1u) == 0) continue;
      cuts = cuts || to.placements.values[axis].is_shard();
      sums = sums || from.placements.values[axis].is_partial();
    }
    if (sums) return cuts ? Collective::reduce_scatter : Collective::all_reduce;
    return cuts ? Collective::all_to_all : Collective::all_gather;
  }

  /// Adds to a bucket of several; a larger tensor is started at once, alone.
  constexpr void put(AnyTensor&& from, AnyTensor&& to, const ExchangeWay& way, DataType travels, Phase phase,
                     Shared<CompletionHandler>&& arrival) {
    const Index most = message_bytes(way.kind == Collective::all_gather ? to : from, travels);
    const Index capacity =
        std::min(most_bytes_, size_of(travels) * std::numeric_limits<int>::max());  // a single call can take
    if (most > capacity) {
      Bucket& alone = under_way_.emplace_back(from.mesh, travels, way, phase);
      alone.add(std::move(from), std::move(to), most, std::move(arrival));
      begin(alone);
    } else {
      bucket_for(from.mesh, travels, way, phase, capacity - most)
          .add(std::move(from), std::move(to), most, std::move(arrival));
    }
  }
  /// An open bucket for this way of communication with `room` bytes left; one with less room counts as full.
  constexpr Bucket& bucket_for(const MeshView& mesh, DataType travels, const ExchangeWay& way, Phase phase,
                               Index room) {
    for (Bucket& bucket : open_) {
      if (!bucket.goes(mesh, travels, way, phase)) continue;
      if (bucket.most() <= room) return bucket;
      begin(open_.move_to(under_way_, bucket));
      break;
    }
    return open_.emplace_back(mesh, travels, way, phase);
  }
  /// Starts the latest bucket in flight.
  constexpr void begin(Bucket& bucket) {
    bucket.start(background_ > 0);
    while (under_way_.size() > static_cast<std::size_t>(background_)) finish_first();
  }
  constexpr void finish_first() {
    PooledList<Bucket> finished;
    under_way_.move_to(finished, under_way_.front()).finish();
  }

  Index most_bytes_;
  int background_;
  PooledList<Bucket> open_, under_way_;
};

/// Buckets with shared ownership. Waiting for a tensor waits for its bucket; the destructor waits for all.
struct SharedBuckets : Counted, Buckets {
  using Buckets::Buckets;
  constexpr ~SharedBuckets() {
    try {
      finish();
    } catch (...) {  // the next communication reports the failure
    }
  }
};
SHARDWISE_COMPILE(end_pooled<SharedBuckets>)

}  // namespace shardwise::detail
