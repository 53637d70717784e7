// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `experts` for tokens that are sharded along the same axes as the experts: each token travels once to each rank that
/// has some of its experts, with its ids and weights, and a sum travels back from each. How many tokens travel is data:
/// ranks exchange these numbers first. On a dry mesh the same code counts a bound of what a rank sends; the
/// rows that it receives, and the memory for them, are counted as if all ranks received as much as they send.

#include <shardwise/ops/experts.hpp>

namespace shardwise::detail {

/// Rows of numbers that arrived from other ranks.
template <class T>
struct Rows {
  Buffer block;
  View<const T, 2> view;
  constexpr Rows(Buffer numbers, Index count, Index width)
      : block(std::move(numbers)), view{data_of<const T>(block), {count, width}, {}, {count, width}} {}
};

/// The tokens that this rank sends to each rank along some axes, and the numbers of those that it receives.
class TokenRoutes : public Counted {
 public:
  /// For this rank's block of ids, [tokens…, choices], and experts of this shape and layout. Collective. Throws
  /// `std::out_of_range`, on all these ranks, if one has an id outside [0, experts).
  template <class Id, int Rank>
  constexpr TokenRoutes(const MeshView& mesh, AxisSet axes, const View<const Id, Rank>& ids,
                        const Shape<4>& experts, const Layout& layout)
      : mesh_(mesh),
        axes_(axes & axes_where(mesh.axes(), [&](int axis) { return mesh.sizes()[axis] > 1; })),
        tokens_(ids.rows()) {
    sent_ = received_ = tokens_ * std::min<Index>(ids.columns(), ranks());
    count(ranks() * Index{sizeof(Index)});
    if (!mesh.dry()) find(ids, experts, layout);
  }

  constexpr int ranks() const { return group_size(mesh_.sizes(), mesh_.axes(), axes_); }
  /// The tokens that this rank receives, its own included. On a dry mesh, as many as a rank sends if the experts of a
  /// token are on as many ranks as possible.
  constexpr Index received() const { return received_; }

  /// Sends rows of `width` numbers for the tokens; returns those that arrive, in the order of the senders. Collective.
  template <class T>
  constexpr Rows<T> there(const T* rows, Index width) const {
    Buffer packed = allocate_buffer(mesh_, sent_ * width * Index{sizeof(T)});
    for (std::size_t i = 0; i < sends_.size(); ++i)
      kernel::copy(width, rows + sends_[i] * width, data_of<T>(packed) + static_cast<Index>(i) * width);
    return Rows<T>(carry(std::move(packed), width, data_type_of<T>(), false), received_, width);
  }
  /// Returns a row for each that arrived. y[t] = the sum of the rows of token t, in the order of the ranks that
  /// returned them. Collective.
  template <class T>
  constexpr void back(Buffer rows, Index width, T* y) const {
    rows = carry(std::move(rows), width, data_type_of<T>(), true);
    if (mesh_.dry()) return;
    kernel::detail::sum_wide(tokens_ * width, y, false, [&](kernel::compute_t<T>* sums) {
      const T* row = data_of<const T>(rows);
      for (const Index token : sends_)
        kernel::accumulate_wide(width, std::exchange(row, row + width), sums + token * width);
    });
  }

 private:
  using Numbers = std::vector<Index, PoolAllocator<Index>>;

  constexpr void count(Index bytes) const {
    Recorder* recorder = ranks() > 1 ? mesh_.recorder() : nullptr;
    if (recorder) recorder->communicate(Collective::all_to_all, mesh_.recorded(axes_), bytes);
  }
  constexpr Buffer carry(Buffer rows, Index width, DataType type, bool home) const {
    if (ranks() == 1) return rows;
    count(rows->bytes);
    Buffer to = allocate_buffer(mesh_, (home ? sent_ : received_) * width * size_of(type));
    if (mesh_.dry()) return to;
    Numbers leaving = home ? arriving_ : leaving_, arriving = home ? leaving_ : arriving_;
    for (Index& number : leaving) number *= width;
    for (Index& number : arriving) number *= width;
    exchange(rows->data, leaving, to->data, arriving, type);
    return to;
  }
  void exchange(const void* in, const Numbers& leaving, void* out, const Numbers& arriving,
                DataType type) const {
    mesh_.communicator(axes_)
        .all_to_all_async(in, leaving, offsets_of(leaving), out, arriving, offsets_of(arriving), type)
        .wait();  // faster between hosts than MPI's own
  }
  template <class Id, int Rank>
  void find(const View<const Id, Rank>& ids, const Shape<4>& experts, const Layout& layout) {
    const Index wrong = kernel::check_ids(ids.elements(), ids.data, experts[0]), choices = ids.columns();
    for (int rank = 0; rank < ranks(); ++rank) {
      const MeshSizes there = group_member(mesh_.sizes(), mesh_.coordinates(), mesh_.axes(), axes_, rank);
      const Range theirs = local_box(experts, layout, mesh_.sizes(), there).range(0);
      const std::size_t before = sends_.size();
      for (Index token = 0; token < tokens_; ++token) {
        const Id* const of = ids.data + token * choices;
        if (std::any_of(of, of + choices, [&](Id id) { return id >= theirs.begin && id < theirs.end(); }))
          sends_.push_back(token);
      }
      leaving_.push_back(wrong < 0 ? static_cast<Index>(sends_.size() - before)
                                   : -1);  // then all ranks throw
    }
    arriving_ = leaving_;
    const Numbers one(leaving_.size(), 1);
    if (ranks() > 1) exchange(leaving_.data(), one, arriving_.data(), one, data_type<Index>);
    if (wrong >= 0)
      fail<std::out_of_range>({"experts: id ", ids.data[wrong], " at ", position(ids.size, wrong, ids.begin),
                               " is not one of the ", experts[0], " experts"});
    const auto failed = std::find(arriving_.begin(), arriving_.end(), -1);
    if (failed != arriving_.end())
      fail<std::out_of_range>({"experts: rank ", failed - arriving_.begin(), " of the ", ranks(),
                               " that share them has an id that is not one of the ", experts[0], " experts"});
    sent_ = sum_of(leaving_);
    received_ = sum_of(arriving_);
  }

  MeshView mesh_;
  AxisSet axes_;
  Index tokens_, sent_ = 0, received_ = 0;
  Numbers sends_{}, leaving_{}, arriving_{};  // tokens by receiver; their numbers, and of those that arrive
};

/// The work of a rank's experts on the tokens that arrived.
struct RoutedExpertsOp : ExpertsOp {
  Index tokens;  ///< of all ranks that share the experts

  /// As if all experts were chosen as often.
  constexpr std::int64_t flops(const auto& y, const auto& x, auto ids, const auto&... others) const {
    ids.size[0] = tokens;
    return ExpertsOp::flops(y, x, ids, others...);
  }
  constexpr std::int64_t gradient_flops(unsigned wanted, const auto& y, const auto& x, auto ids,
                                        const auto&... others) const {
    ids.size[0] = tokens;
    return ExpertsOp::gradient_flops(wanted, y, x, ids, others...);
  }
};

/// Records a node without a type of its own.
template <class F>
constexpr void record_pullback(Tape& tape, F pullback) {
  tape.record<PullbackNode<F>>(std::move(pullback));
}

/// Records that the rows of `x` were sent; returns what the operation on those that arrived keeps.
template <class T, TensorOperand X>
constexpr NodeInput<T, 2> sent_input(Tape& tape, const Shared<TokenRoutes>& routes, const X& x,
                                     const Rows<T>& rows) {
  Shared<GradientSlot> slot;
  if constexpr (OperandTraits<X>::tracked) {
    slot = Shared<GradientSlot>::make();
    record_pullback(tape, [mesh = value_of(x).mesh(), routes, to = node_input(x, false),
                           arrived = ResultSlot(slot)](BackwardPart) {
      Buffer gradients = arrived->pass();
      if (!gradients) return false;
      Buffer sum = allocate_buffer(mesh, to.bytes());
      routes->back(std::move(gradients), to.extents.columns(), data_of<T>(sum));
      to.slot->add(std::move(sum), element_sum<T>, mesh.recorder());
      to.slot->settle();
      return false;
    });
  }
  return {rows.view, Kept(rows.block), slot};
}

template <AxisSet Axes>
constexpr Layout gathered_along(const Layout& layout) {
  return Layout::by_axis(layout.axes,
                         [&](int axis) { return (Axes >> axis & 1u) != 0 ? reduced : layout[axis]; });
}
template <AxisSet Axes, class X>
using GatheredAlong = Abstract<with_layout<tensor_of<X>, packed(gathered_along<Axes>(tensor_of<X>::layout))>,
                               OperandTraits<X>::on_tape, OperandTraits<X>::tracked>;
template <AxisSet Axes, class X, class Ids, class Weights, class... Experts>
using routed_result = tensor_of<result_of<ExpertsOp, X, Ids, Weights, GatheredAlong<Axes, Experts>...>>;

/// `experts` as if the experts, which are `Shard<0>` along `Axes`, were gathered along these axes, except that tokens
/// travel instead. Collective along `Axes`: forward five all-to-alls, of the numbers of tokens, of tokens, their ids
/// and weights, and of sums; backward three. A sum has the terms of one rank, in the order of the experts; sums are
/// added in the order of the ranks.
///
/// The pullback keeps the tokens that arrived. Throws as `experts` does; for a wrong id, on all ranks along `Axes`.
template <AxisSet Axes, Operand X, Operand Ids, Operand Weights, Operand GateUp, Operand Down,
          WellFormed Y = routed_result<Axes, X, Ids, Weights, GateUp, Down>>
constexpr auto routed_experts(const X& x, const Ids& ids, const Weights& weights, const GateUp& gate_up,
                              const Down& down) {
  if constexpr (AbstractOperand<X> || AbstractOperand<Ids> || AbstractOperand<Weights>) {
    return abstract_result<Y, X, Ids, Weights, GateUp, Down>();
  } else {
    using T = typename Y::Element;
    const auto& first = value_of(gate_up);
    const auto& second = value_of(down);
    Y y(common_mesh(value_of(x), value_of(ids), value_of(weights), first, second),
        shape_of_result(ExpertsOp(), value_of(x).shape(), value_of(ids).shape(), value_of(weights).shape(),
                        first.shape(), second.shape()));
    const auto& mesh = y.mesh();
    const auto routes = Shared<TokenRoutes>::make(MeshView(mesh), Axes, value_of(ids).view(), first.shape(),
                                                  tensor_of<GateUp>::layout);
    const auto send = [&](const auto& from) { return routes->there(from.data, from.columns()); };
    const auto tokens = send(value_of(x).view()), factors = send(value_of(weights).view());
    const auto chosen = send(value_of(ids).view());
    const RoutedExpertsOp op{{}, value_of(x).view().rows() * routes->ranks()};
    const Index out = second.local_shape()[1];
    Rows<T> sums(allocate_buffer(mesh, routes->received() * out * Index{sizeof(T)}), routes->received(), out);
    Buffer residual;
    run(op, MeshView(mesh), residual, View<T, 2>{data_of<T>(sums.block), sums.view.size, {}, sums.view.shape},
        tokens.view, chosen.view, factors.view, first.view(), second.view());
    routes->back(std::move(sums.block), out, y.writable().data);
    return on_common_tape(
        std::move(y),
        [&](Tape& tape, const Y& result, const auto& slot) {
          auto kept_tokens = sent_input(tape, routes, x, tokens),
               kept_factors = sent_input(tape, routes, weights, factors);
          const auto terms = Shared<GradientSlot>::make();
          sums.view.data = nullptr;
          record(tape, op, result.mesh().handle(), sums.view, Buffer(), std::move(residual), terms, 0,
                 std::move(kept_tokens), NodeInput(chosen.view, Kept(chosen.block)), std::move(kept_factors),
                 node_input(gate_up, true), node_input(down, true));
          record_pullback(tape, [mesh = result.mesh(), routes, terms, out,
                                 dy = ResultSlot(slot)](BackwardPart) {
            if (const Buffer own = dy->pass())
              terms->add(routes->there(data_of<const T>(own), out).block, element_sum<T>, mesh.recorder());
            return false;
          });
          return Shared<Recipe>();
        },
        x, ids, weights, gate_up, down);
  }
}
template <AxisSet Axes, class X, class Ids, class Weights, class... Experts,
          IllFormed Why = routed_result<Axes, X, Ids, Weights, Experts...>>
Why routed_experts(const X&, const Ids&, const Weights&, const Experts&...);  // see Why

}  // namespace shardwise::detail
