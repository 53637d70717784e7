// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `embedding`: rows of a table by their ids. Along one axis, besides whole operands: a table whose columns
/// are sharded gives columns; sharded tokens beside a `Reduced` table give rows; and a table whose vocabulary
/// is sharded gives a pending sum, to which each rank contributes the rows that it owns.

#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/embedding.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

struct EmbeddingOp {
  static constexpr const char* name = "embedding";
  static constexpr Signature signature =
      Signature::of("..., vd -> ...d").linear_in_each().without_gradient(0);
  static constexpr Saved saved{.inputs = 0b01};
  static constexpr bool accumulates = true;
  static constexpr bool leaves_gradient = true;
  static constexpr int flops_each = 0, gradient_flops_each = 1;

  /// Linear in the table only.
  static constexpr Propagated rule(const Signature& own, const OperandPlacements& at) {
    if (at[0] == partial_sum) return {{}, Reason::operation_is_not_linear_so_it_needs_the_finished_sum};
    return propagate(own, at);
  }

  template <class T, class Id, int Rank>
  [[gnu::noinline]] static void forward(View<T, Rank + 1> y, void*, View<const Id, Rank> tokens,
                                        View<const T, 2> table) {
    check(tokens, table);
    kernel::embedding(tokens.elements(), tokens.data, table.begin[0], table.size[0], table.size[1],
                      table.data, y.data);
  }
  /// Throws `std::out_of_range` for an id outside the vocabulary.
  template <class T, class Id, int Rank>
  static void check(const View<const Id, Rank>& tokens, const View<const T, 2>& table) {
    const Index count = tokens.elements(), vocabulary = table.shape[0];
    const Index wrong = kernel::check_ids(count, tokens.data, vocabulary);
    if (wrong >= 0) {
      detail::fail<std::out_of_range>(
          {"embedding: token ", tokens.data[wrong], " at ",
           detail::position(tokens.size, wrong, tokens.begin), " is outside the vocabulary of ", vocabulary,
           ", of which this rank holds ", table.begin[0], " to ", table.begin[0] + table.size[0]});
    }
  }

  template <class T, class Id, int Rank>
  static void pull_back(View<const T, Rank + 1> dy, View<const T, Rank + 1>, const void*,
                        Input<Id, Rank> tokens, Input<T, 2> table) {
    if (!table.gradient) return;
    if (!table.accumulate) kernel::fill<T>(table.elements(), 0, table.gradient);
    kernel::embedding_backward(tokens.elements(), tokens.data, table.begin[0], table.size[0], table.size[1],
                               dy.data, table.gradient);
  }

  /// The layouts of the tokens, of the table, and of the gradient of the result.
  Layout tokens, table, dy;

  /// Keeps the gradient of a parameter as the tokens' rows, if ranks have looked up different tokens and these are few:
  /// the rows are then less to send than the table. Returns whether it does.
  template <class T, class Id, int Rank>
  [[gnu::noinline]] constexpr bool leave(const MeshView& mesh, const View<const T, Rank + 1>& y,
                                         const Buffer& gradient, const detail::NodeInput<Id, Rank>& ids,
                                         const detail::NodeInput<T, 2>& weight) const {
    if (!weight.slot || weight.slot->use() == MemoryUse::activation) return false;
    const MeshSizes& sizes = mesh.sizes();
    Index ranks = 1;
    for (int axis = 0; axis < table.axes; ++axis) {
      if (table[axis] != reduced || sizes[axis] == 1) continue;
      if (!dy[axis].is_shard()) return false;
      ranks *= sizes[axis];
    }
    if (ranks == 1) return false;
    const auto& rows = weight.extents;
    const Index most_rows = local_box(rows.shape, table, sizes, MeshSizes{}).size[0];  // on any rank
    const bool kept = weight.slot->keep(
        {detail::AnyTensor(mesh, data_type_of<Id>(), tokens, ids.extents.shape, ids.saved.block()),
         detail::AnyTensor(mesh, data_type_of<T>(), dy, y.shape, gradient),
         {rows.begin[0], rows.size[0], rows.size[1]},
         &detail::element_sum<T>,
         &detail::add_sparse_rows<T, Id>},
        most_rows / ranks);
    if (kept) weight.slot->settle();
    return kept;
  }
};
SHARDWISE_COMPILE_MEMBER(void EmbeddingOp::forward(View<float, 3>, void*, View<const std::int32_t, 2>,
                                                   View<const float, 2>))
SHARDWISE_COMPILE_MEMBER(bool EmbeddingOp::leave(const MeshView&, const View<const float, 3>&, const Buffer&,
                                                 const detail::NodeInput<std::int32_t, 2>&,
                                                 const detail::NodeInput<float, 2>&) const)

/// tokens: integers, [t…]; table: [vocabulary, dim]; the result is [t…, dim]. Throws `std::out_of_range`, on
/// the rank that holds it, for an id outside [0, vocabulary).
template <Operand Tokens, Operand Table, class Op = detail::op_for<EmbeddingOp, Table>,
          WellFormed Result = result_of<Op, Tokens, Table>>
constexpr auto embedding(const Tokens& tokens, const Table& table) {
  if constexpr (AbstractOperand<Result>) {
    return Result();
  } else if constexpr (!std::is_same_v<Op, EmbeddingOp>) {
    return apply(Op(), tokens, table);
  } else {
    const EmbeddingOp op{tensor_of<Tokens>::layout, tensor_of<Table>::layout, cotangent(Result::layout)};
    return apply(op, tokens, table);
  }
}
template <class Tokens, class Table,
          IllFormed Why = result_of<detail::op_for<EmbeddingOp, Table>, Tokens, Table>>
Why embedding(const Tokens&, const Table&);  // see Why

}  // namespace shardwise
