// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What one rank of a ring computes, forward and backward, of the blocks of keys and values that come by.

#include <shardwise/nn/ring_exchange.hpp>
#include <shardwise/ops/op_node.hpp>

namespace shardwise::detail {

/// One rank's part of it. `Documents`: a view of their numbers, or `Nothing`.
template <class T, class Documents>
struct RingPart {
  using C = kernel::compute_t<T>;
  AttentionOp op;
  RingSteps steps;
  View<const T, 4> q, k;  ///< where queries and own keys lie
  Documents documents;

  constexpr Range keys_at(int step) const { return steps.keys_of(steps.block(step)); }
  constexpr Index bytes_at(int step) const {
    return k.size[0] * keys_at(step).size * k.extent(2, 4) * Index{sizeof(T)};
  }
  constexpr kernel::AttentionShape extents(int step) const {
    View<const T, 4> whole = k;
    whole.size[1] = whole.shape[1];
    kernel::AttentionShape shape = [&] {
      if constexpr (std::is_same_v<Documents, Nothing>) {
        return op.extents<T>(q, whole);
      } else {
        return op.extents<T>(q, whole, documents);
      }
    }();
    const Range here = keys_at(step);
    shape.keys = shape.capacity = here.size;
    shape.first_key = here.begin;
    return shape;
  }
  constexpr std::int64_t flops(int step) const {
    const Range here = keys_at(step);
    const Index first = k.shape[1] - q.shape[1] + q.begin[1] - here.begin;
    const Index pairs =
        kernel::visible_pairs(q.size[1], here.size, first, op.options.causal, op.options.window);
    return 4 * pairs * q.extent(0, 1) * q.extent(2, 4);
  }

  /// What some keys give, o and lse, comes to what others gave.
  void merge(const T* o, const C* lse, T* all_o, C* all_lse) const {
    const Index heads = q.size[2], queries = q.size[1], d = q.size[3];
    for (Index row = 0; row < q.size[0] * queries * heads; ++row) {
      const Index b = row / (queries * heads), i = row / heads % queries, h = row % heads;
      const C some = lse[(b * heads + h) * queries + i];
      C& all = all_lse[(b * heads + h) * queries + i];
      const C highest = std::max(some, all);
      if (highest == -std::numeric_limits<C>::infinity()) continue;
      const C of_some = std::exp(some - highest), of_all = std::exp(all - highest), sum = of_some + of_all;
      all = highest + std::log(sum);
      for (Index c = row * d; c < (row + 1) * d; ++c) {
        all_o[c] =
            kernel::narrow<T>((kernel::widen(all_o[c]) * of_all + kernel::widen(o[c]) * of_some) / sum);
      }
    }
  }
};

template <class T>
constexpr T* data_of(const Buffer& buffer) {
  return std::is_constant_evaluated() ? nullptr : static_cast<T*>(buffer->data);
}

/// The way of the blocks. Calls, for each that this rank gets, `visitor.expect(step)`; and `visitor.meet(step, keys and
/// values)`, when the next has been begun.
template <class T, class Documents, class Visitor>
constexpr void go_round(const MeshView& mesh, int axis, const RingPart<T, Documents>& part, BlockPair own,
                        Visitor& visitor) {
  const RingSteps& steps = part.steps;
  BlockPair here = std::move(own);
  for (int step = 0; step < steps.ranks(); ++step) {
    const bool has = steps.has(step);
    if (has) visitor.expect(step);
    BlockPair next;
    PairUnderWay exchange(mesh, axis, data_type_of<T>());
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
  constexpr RingForward(const MeshView& mesh, const RingPart<T, Documents>& part, const T* q, const Buffer& o,
                        const Buffer& lse)
      : mesh_(mesh), part_(part), q_(q), o_(o), lse_(lse) {}

  constexpr void expect(int) {}
  constexpr void meet(int step, const BlockPair& keys) {
    if (!part_.steps.computes(step)) return;
    if (Recorder* recorder = mesh_.recorder()) recorder->compute(part_.flops(step));
    const bool first = std::exchange(first_, false);
    const Buffer o = first ? o_ : allocate_buffer(mesh_, o_->bytes),
                 lse = first ? lse_ : allocate_buffer(mesh_, lse_->bytes);
    if (mesh_.dry()) return;
    kernel::attention(part_.extents(step), q_, data_of<const T>(keys.first), data_of<const T>(keys.second),
                      data_of<T>(o), data_of<C>(lse));
    if (!first) part_.merge(data_of<T>(o), data_of<C>(lse), data_of<T>(o_), data_of<C>(lse_));
  }
  /// Nothing was seen.
  void finish() {
    if (!first_) return;
    std::memset(o_->data, 0, static_cast<std::size_t>(o_->bytes));
    std::fill_n(data_of<C>(lse_), lse_->bytes / Index{sizeof(C)}, -std::numeric_limits<C>::infinity());
  }

 private:
  MeshView mesh_;
  const RingPart<T, Documents>& part_;
  const T* q_;
  Buffer o_, lse_;
  bool first_ = true;
};

/// Leaves the gradients.
template <class T, class Node>
class RingBackward {
  using C = kernel::compute_t<T>;

 public:
  constexpr RingBackward(Node& node, const Buffer& dy)
      : node_(node),
        dy_(dy),
        mesh_(node.mesh),
        incoming_(mesh_, node.axis, data_type_of<T>()),
        onwards_(mesh_, node.axis, data_type_of<T>()),
        home_(mesh_, node.axis, data_type_of<T>()) {
    // From the rank before, all else comes earlier: see `finish`.
    if (Node::wants_keys && comes_home() && last_of_own() != steps().previous()) expect_home();
  }

  constexpr void expect(int step) {
    if (!Node::wants_keys || step == 0) return;
    sums_ = pair(step);
    incoming_.receive(sums_, steps().previous());
    incoming_.start();
  }
  constexpr void meet(int step, const BlockPair& keys) {
    BlockPair own = gradients(step, keys);
    if (!Node::wants_keys) return;
    if (step == 0) {
      sums_ = std::move(own);
      if (!comes_home()) result_ = sums_;
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
    if (!Node::wants_keys) return {};
    if (comes_home() && !result_.first) expect_home();
    onwards_.finish();
    home_.finish();
    return result_;
  }

 private:
  constexpr const RingSteps& steps() const { return node_.part.steps; }
  constexpr int last_of_own() const { return steps().after(steps().self(), steps().hops(steps().self())); }
  constexpr bool comes_home() const { return last_of_own() != steps().self(); }
  constexpr void expect_home() {
    result_ = pair(0);
    home_.receive(result_, last_of_own());
    home_.start();
  }
  constexpr BlockPair pair(int step) const {
    const Index bytes = node_.part.bytes_at(step);
    return {allocate_buffer(mesh_, bytes, MemoryUse::gathered),
            allocate_buffer(mesh_, bytes, MemoryUse::gathered)};
  }
  /// Leaves that of the queries, and returns those of the keys: zeros, in the first step, if nothing is seen there.
  constexpr BlockPair gradients(int step, const BlockPair& keys) {
    const bool computes = steps().computes(step);
    if (!computes && step > 0) return {};
    BlockPair own = Node::wants_keys ? pair(step) : BlockPair();
    Buffer dq;
    if (Node::wants_queries) dq = allocate_buffer(mesh_, node_.q.bytes());
    if (Recorder* recorder = mesh_.recorder(); recorder && computes) {
      recorder->compute(node_.part.flops(step) / 2 *
                        (2 + (Node::wants_queries ? 1 : 0) + (Node::wants_keys ? 2 : 0)));
    }
    if (!mesh_.dry()) {
      T *to_q = block_of(dq), *to_k = block_of(own.first), *to_v = block_of(own.second);
      if (computes) {
        kernel::attention_backward(node_.part.extents(step), node_.q.extents.data,
                                   data_of<const T>(keys.first), data_of<const T>(keys.second),
                                   node_.y.data(), data_of<const C>(node_.lse), data_of<const T>(dy_), to_q,
                                   to_k, to_v);
      } else {
        for (const Buffer& block : {dq, own.first, own.second}) {
          if (block) std::memset(block->data, 0, static_cast<std::size_t>(block->bytes));
        }
      }
    }
    if constexpr (Node::wants_queries) node_.q.slot->add(std::move(dq), element_sum<T>, mesh_.recorder());
    return own;
  }
  static T* block_of(const Buffer& buffer) { return buffer ? data_of<T>(buffer) : nullptr; }
  constexpr void add(const BlockPair& own) {
    if (!own.first) return;
    if (Recorder* recorder = mesh_.recorder()) recorder->compute(2 * own.first->bytes / Index{sizeof(T)});
    if (mesh_.dry()) return;
    const Index count = own.first->bytes / Index{sizeof(T)};
    element_sum<T>.add(count, sums_.first->data, own.first->data, sums_.first->data);
    element_sum<T>.add(count, sums_.second->data, own.second->data, sums_.second->data);
  }

  Node& node_;
  Buffer dy_;
  MeshView mesh_;
  BlockPair sums_, sent_, result_;
  PairUnderWay incoming_, onwards_, home_;  // which end before their blocks go
};

}  // namespace shardwise::detail
