// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The forward and backward computation of one rank of a ring, with the blocks of keys and values that pass by.

#include <shardwise/nn/ring_exchange.hpp>
#include <shardwise/ops/op_node.hpp>

namespace shardwise::detail {

/// One rank's part of the attention. `Documents`: a view of the documents' numbers, or `Nothing`.
template <class T, class Documents>
struct RingPart {
  using C = kernel::compute_t<T>;
  AttentionOp op;
  RingSteps steps;
  View<const T, 4> q, k;  ///< the queries and this rank's own keys
  Documents documents;

  /// The sizes of a block of queries, of its logarithms, and of the block of keys at a step.
  constexpr Index query_bytes() const { return lse_rows() * q.size[3] * Index{sizeof(T)}; }
  constexpr Index lse_bytes() const { return lse_rows() * Index{sizeof(C)}; }
  constexpr Index bytes_at(int step) const {
    return k.size[0] * positions(steps.keys_of(steps.block(step))) * k.extent(2, 4) * Index{sizeof(T)};
  }
  /// The cost of two products.
  constexpr std::int64_t flops(int step) const {
    return 4 * steps.pairs(steps.self(), steps.block(step)) * q.extent(0, 1) * q.extent(2, 4);
  }

  constexpr bool swaps() const { return steps.swaps(steps.self()); }
  /// Rearranges blocks from the order of positions to this rank's computed positions; with `home`, the other way.
  constexpr RingBlocks swapped(const MeshView& mesh, int axis, const RingBlocks& from, bool home) const {
    RingMessages messages(mesh, axis, data_type_of<T>());
    const auto one = [&](const Buffer& block, const View<const T, 4>& in_order, const Ranges& ranges) {
      return swap_halves(messages, steps.mirror(steps.self()), block, in_order, ranges, home);
    };
    const auto pair = [&](const BlockPair& blocks, const View<const T, 4>& in_order, const Ranges& own) {
      Buffer first = one(blocks.first, in_order, own);
      return BlockPair{std::move(first), one(blocks.second, in_order, own)};
    };
    BlockPair queries = pair(from.queries, q, steps.queries_of(steps.self()));
    RingBlocks to{std::move(queries), pair(from.keys, k, steps.keys_of(steps.self()))};
    messages.start();
    messages.finish();
    return to;
  }

  /// The first element of some queries, and of some keys, as offsets in their blocks.
  struct Begin {
    Index q, lse, k;
  };
  /// Calls f(shape, begin) for each range of queries and each range of a step's keys that these queries see.
  template <class F>
  void for_ranges(int step, F f) const {
    View<const T, 4> queries = q, keys = k;
    keys.size[1] = keys.shape[1];
    Begin at{};
    for (const Range& own : steps.queries_of(steps.self())) {
      if (own.size == 0) continue;
      queries.begin[1] = own.begin, queries.size[1] = own.size;
      kernel::AttentionShape shape = [&] {
        if constexpr (std::is_same_v<Documents, Nothing>) {
          return op.extents<T>(queries, keys, queries.size[3]);
        } else {
          return op.extents<T>(queries, keys, queries.size[3], documents);
        }
      }();
      shape.adds = true;
      at.k = 0;
      for (const Range& seen : steps.keys_of(steps.block(step))) {
        shape.keys = shape.capacity = seen.size;
        shape.first_key = seen.begin;
        if (steps.pairs(own, seen) > 0) f(std::as_const(shape), std::as_const(at));
        at.k += k.size[0] * seen.size * k.extent(2, 4);
      }
      at.q += queries.elements();
      at.lse += queries.extent(0, 3);
    }
  }

 private:
  static constexpr Index positions(const Ranges& all) { return all[0].size + all[1].size; }
  constexpr Index lse_rows() const {
    return q.size[0] * positions(steps.queries_of(steps.self())) * q.size[2];
  }
};

inline void fill_zero(const Buffer& block) {
  if (block) std::memset(block->data, 0, static_cast<std::size_t>(block->bytes));
}

/// Passes the blocks on. For each block that this rank gets, it calls `visitor.expect(step)`, and, once the transfer of
/// the next block has started, `visitor.meet(step, keys and values)`.
template <class T, class Documents, class Visitor>
constexpr void go_round(const MeshView& mesh, int axis, const RingPart<T, Documents>& part, BlockPair own,
                        Visitor& visitor) {
  const RingSteps& steps = part.steps;
  BlockPair here = std::move(own);
  for (int step = 0; step < steps.ranks(); ++step) {
    const bool has = steps.has(step);
    if (has) visitor.expect(step);
    BlockPair next;
    RingMessages exchange(mesh, axis, data_type_of<T>());
    if (steps.has(step + 1)) {
      next = {allocate_buffer(mesh, part.bytes_at(step + 1), MemoryUse::gathered),
              allocate_buffer(mesh, part.bytes_at(step + 1), MemoryUse::gathered)};
      exchange.receive(next, steps.previous());
    }
    if (has && steps.passes_on(step)) exchange.send(here, steps.next());
    exchange.start();
    if (has) visitor.meet(step, here);
    exchange.finish();
    here = std::move(next);
  }
}

/// Computes o, and the logarithms of the sums of exponentials.
template <class T, class Documents>
class RingForward {
  using C = kernel::compute_t<T>;

 public:
  constexpr RingForward(const MeshView& mesh, const RingPart<T, Documents>& part, const Buffer& q)
      : o(allocate_buffer(mesh, part.query_bytes())),
        lse(allocate_buffer(mesh, part.lse_bytes())),
        mesh_(mesh),
        part_(part),
        q_(q) {
    if (mesh.dry()) return;
    fill_zero(o);  // as if no query saw a key
    std::fill_n(data_of<C>(lse), lse->bytes / Index{sizeof(C)}, -std::numeric_limits<C>::infinity());
  }

  constexpr void expect(int) {}
  constexpr void meet(int step, const BlockPair& keys) {
    const std::int64_t flops = part_.flops(step);
    if (flops == 0) return;
    count_work(mesh_, flops, 2 * (o->bytes + keys.first->bytes), AttentionOp::name);
    if (mesh_.dry()) return;
    part_.for_ranges(step, [&](const kernel::AttentionShape& shape, const auto& at) {
      kernel::attention(shape, data_of<const T>(q_) + at.q, data_of<const T>(keys.first) + at.k,
                        data_of<const T>(keys.second) + at.k, data_of<T>(o) + at.q, data_of<C>(lse) + at.lse);
    });
  }

  Buffer o, lse;

 private:
  MeshView mesh_;
  const RingPart<T, Documents>& part_;
  Buffer q_;
};

/// Computes the gradients.
template <class T, class Pullback>
class RingBackward {
  using C = kernel::compute_t<T>;

 public:
  /// `q`: the queries that this rank computes; `result`: o and its gradient.
  constexpr RingBackward(const MeshView& mesh, const Pullback& given, const Buffer& q,
                         const BlockPair& result)
      : given_(given),
        q_(q),
        result_(result),
        mesh_(mesh),
        wants_queries_(given.q.slot),
        wants_keys_(given.k.slot || given.v.slot),
        incoming_(mesh_, given.axis, data_type_of<T>()),
        onwards_(mesh_, given.axis, data_type_of<T>()),
        home_(mesh_, given.axis, data_type_of<T>()) {
    if (wants_queries_) dq = allocate_buffer(mesh_, given.part.query_bytes());
    if (!mesh_.dry()) fill_zero(dq);
    // All other messages from the previous rank come earlier: see `finish`.
    if (wants_keys_ && comes_home() && last_of_own() != steps().previous()) expect_home();
  }

  constexpr void expect(int step) {
    if (!wants_keys_ || step == 0) return;
    sums_ = pair(step);
    incoming_.receive(sums_, steps().previous());
    incoming_.start();
  }
  constexpr void meet(int step, const BlockPair& keys) {
    BlockPair own = gradients(step, keys);
    if (!wants_keys_) return;
    if (step == 0) {
      sums_ = std::move(own);
      if (!comes_home()) own_ = sums_;
    } else {
      incoming_.finish();
      add(own);
    }
    onwards_.finish();
    sent_ = std::move(sums_);
    if (steps().passes_on(step)) {
      onwards_.send(sent_, steps().next());
    } else if (step > 0) {
      onwards_.send(sent_, steps().block(step));
    }
    onwards_.start();
  }
  /// Returns the gradients of this rank's own keys and values.
  constexpr BlockPair finish() {
    if (!wants_keys_) return {};
    if (comes_home() && !own_.first) expect_home();
    onwards_.finish();
    home_.finish();
    return own_;
  }

  Buffer dq;  ///< null if not wanted

 private:
  constexpr const RingSteps& steps() const { return given_.part.steps; }
  constexpr int last_of_own() const { return steps().after(steps().self(), steps().hops(steps().self())); }
  constexpr bool comes_home() const { return last_of_own() != steps().self(); }
  constexpr void expect_home() {
    own_ = pair(0);
    home_.receive(own_, last_of_own());
    home_.start();
  }
  constexpr BlockPair pair(int step) const {
    const Index bytes = given_.part.bytes_at(step);
    return {allocate_buffer(mesh_, bytes, MemoryUse::gathered),
            allocate_buffer(mesh_, bytes, MemoryUse::gathered)};
  }
  /// Adds to the gradient of the queries, and returns those of the keys: empty if no query attends to them, except in
  /// the first step.
  constexpr BlockPair gradients(int step, const BlockPair& keys) {
    const std::int64_t flops = given_.part.flops(step);
    if (flops == 0 && step > 0) return {};
    BlockPair own;  // not by `?:`, whose handles g++ 12 miscounts in a constant
    if (wants_keys_) own = pair(step);
    if (flops > 0) {
      count_work(mesh_, flops / 2 * (2 + (wants_queries_ ? 1 : 0) + (wants_keys_ ? 2 : 0)),
                 4 * (q_->bytes + keys.first->bytes), AttentionOp::name);
    }
    if (mesh_.dry()) return own;
    fill_zero(own.first);
    fill_zero(own.second);
    given_.part.for_ranges(step, [&](const kernel::AttentionShape& shape, const auto& at) {
      kernel::attention_backward(shape, data_of<const T>(q_) + at.q, data_of<const T>(keys.first) + at.k,
                                 data_of<const T>(keys.second) + at.k, data_of<const T>(result_.first) + at.q,
                                 data_of<const C>(given_.lse) + at.lse,
                                 data_of<const T>(result_.second) + at.q, block_of(dq, at.q),
                                 block_of(own.first, at.k), block_of(own.second, at.k));
    });
    return own;
  }
  static T* block_of(const Buffer& buffer, Index begin) {
    return buffer ? data_of<T>(buffer) + begin : nullptr;
  }
  constexpr void add(const BlockPair& own) {
    if (!own.first) return;
    count_work(mesh_, 2 * own.first->bytes / Index{sizeof(T)}, 6 * own.first->bytes);
    if (mesh_.dry()) return;
    const Index count = own.first->bytes / Index{sizeof(T)};
    element_sum<T>.add(count, sums_.first->data, own.first->data, sums_.first->data);
    element_sum<T>.add(count, sums_.second->data, own.second->data, sums_.second->data);
  }

  const Pullback& given_;
  Buffer q_;
  BlockPair result_;
  MeshView mesh_;
  bool wants_queries_, wants_keys_;
  BlockPair sums_, sent_, own_;
  RingMessages incoming_, onwards_, home_;  // they end before their blocks are destroyed
};

}  // namespace shardwise::detail
