// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// An operation on rows beside the redistribution of its operand or of its result: pieces travel while the rows of
/// other pieces are computed. So forward, a message costs only the time that exceeds the computation's.

#include <shardwise/ops/apply.hpp>

namespace shardwise::detail {

/// The least bytes of a piece: over 1 Gbit/s, about 2 ms.
inline constexpr Index least_piece = Index{256} << 10;

/// A tensor that travels in pieces between hosts, before or after the rows of these pieces are computed.
class TransferInPieces {
 public:
  /// `x`: where the pieces `leave`, the result that has yet to be computed. The last `features` dimensions are a row.
  constexpr TransferInPieces(AnyTensor x, const Step& step, DataType travels, bool leaves, int features,
                             int most)
      : leaves_(leaves), transfer_(std::move(x), step, travels, leaves) {
    exchange().cut(most, least_piece, result().rank - features);
    if (!leaves_) start(0);
  }
  TransferInPieces& operator=(TransferInPieces&&) = delete;

  /// The tensor in its new layout; incomplete before `for_rows` has returned, and where pieces leave, `finish`.
  constexpr const AnyTensor& result() const { return transfer_.result(); }
  /// Calls compute(first, count) for ranges of rows, of `row` elements: together, all in this rank's block.
  template <class F>
  constexpr void for_rows(Index row, F compute) {
    const int pieces = exchange().pieces();
    for (int piece = 0; piece < pieces; ++piece) {
      if (!leaves_) exchange().finish_next();
      // One at a time: two would share the link, and arrive together.
      if (!leaves_ && piece + 1 < pieces) start(piece + 1);
      exchange().for_ranges(piece, !leaves_,
                            [&](Index first, Index count) { compute(first / row, count / row); });
      if (leaves_) start(piece);
    }
  }
  constexpr AnyTensor finish() { return transfer_.finish(); }
  constexpr bool leaves() const { return leaves_; }

 private:
  constexpr Exchange& exchange() { return transfer_.exchange(); }
  constexpr void start(int piece) {
    if (piece == 0) return exchange().start(exchange().pieces() > 1);
    exchange().start_next();
  }

  bool leaves_;
  Transfer transfer_;
};

/// The step by which `x`, which needs no block, travels between hosts to the layout `to`, if one is enough.
constexpr std::optional<Step> step_between_hosts(const AnyTensor& x, const Layout& to) {
  if (same_data(x.layout, to) || !x.mesh.has_several_hosts()) return {};
  const Route way = route_of(x, to);
  if (way.end() - way.begin() != 1) return {};
  const Step& only = *way.begin();
  const bool in_pieces = only.kind == Collective::all_gather || only.kind == Collective::all_reduce ||
                         only.kind == Collective::reduce_scatter;
  return in_pieces && x.mesh.crosses_hosts(only.axes) ? std::optional(only) : std::nullopt;
}

/// Some rows of a block, as a block whose first dimension counts them.
template <int Features, class T, int Rank>
constexpr View<T, Rank> some_rows(View<T, Rank> block, Index first, Index count) {
  if constexpr (Rank > Features) {
    if (block.data) block.data += first * block.extent(Rank - Features, Rank);
    for (int dim = 0; dim < Rank - Features; ++dim) block.size[dim] = dim == 0 ? count : 1;
  }
  return block;
}

/// Computes the rows of `op` in `to` from those of x, piece by piece.
template <int In, int Out, class Op, class T, int Rank, TensorType X, TensorType... W>
constexpr void run_by_rows(TransferInPieces& pieces, const View<T, Rank>& to, const Op& op, const X& x,
                           const W&... w) {
  const auto from = x.view();
  const Index row = pieces.leaves() ? to.extent(Rank - Out, Rank) : from.extent(X::rank - In, X::rank);
  Buffer none;
  pieces.for_rows(row, [&](Index first, Index count) {
    run(op, MeshView(x.mesh()), none, some_rows<Out>(to, first, count), some_rows<In>(from, first, count),
        w.view()...);
  });
}

/// `apply(op, x, w...)` while x arrives as the result of `pieces`. The last `In` dimensions of x are features, and the
/// last `Out` of the result.
template <int In, int Out, class Op, Operand X, Operand... W,
          TensorType Y = typename Applied<Op, X, W...>::type>
constexpr auto apply_to_arriving(TransferInPieces& pieces, const Op& op, const X& x, const W&... w) {
  Y y(common_mesh(value_of(x), value_of(w)...),
      shape_of_result(op, value_of(x).shape(), value_of(w).shape()...));
  run_by_rows<In, Out>(pieces, y.writable(), op, value_of(x), value_of(w)...);
  return recorded(op, std::move(y), Buffer(), x, w...);
}

/// `apply(op, x, w...)` as a `Z`: each piece leaves when its rows are computed.
template <TensorType Z, int In, int Out, class Op, Operand X, Operand... W,
          TensorType Y = typename Applied<Op, X, W...>::type>
constexpr auto apply_and_send(const Step& step, const Communication& as, int most, const Op& op, const X& x,
                              const W&... w) {
  const auto mesh = common_mesh(value_of(x), value_of(w)...);
  Y y(mesh, shape_of_result(op, value_of(x).shape(), value_of(w).shape()...));
  const auto to = y.writable();
  TransferInPieces pieces(AnyTensor(y), step, as.forward_of(data_type_of<typename Y::Element>()), true, Out,
                          most);
  run_by_rows<In, Out>(pieces, to, op, value_of(x), value_of(w)...);
  const auto computed = recorded(op, std::move(y), Buffer(), x, w...);
  return redistributed_on_tape(pieces.finish().template as<Z>(mesh), computed, as);
}

}  // namespace shardwise::detail
