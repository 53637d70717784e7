// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `Embedding`: rows of a table [vocabulary, features] by token. `ColwiseParallel` splits the features and
/// needs no communication; `RowwiseParallel` splits the vocabulary, looks up its own rows, and adds up once.
/// `SequenceParallel` splits the tokens, and each rank has the whole table.

#include <shardwise/layout/diagnosis.hpp>

#include <shardwise/module/module.hpp>
#include <shardwise/ops/embedding.hpp>
#include <shardwise/parallel/style_problem.hpp>
#include <shardwise/parallel/styled.hpp>

namespace shardwise {

template <class MeshType, ParallelStyle Style = NoParallel, class T = float>
class Embedding : public Module<Embedding<MeshType, Style, T>> {
 public:
  using Element = typename detail::WeightElement<Style, T>::type;
  using Table = tensor_with<Element, 2, MeshType, packed(detail::weight_layout<Style, MeshType>(1, 0))>;
  static_assert(std::is_same_v<Element, T> || std::is_same_v<T, float>, "quantised tables give float");
  using TableParameter = detail::StyledWeight<Style, Table, 1>;
  using Problem = detail::style_problem<MeshType, ModuleKind::embedding, Style>;

  /// A table [vocabulary, features], whose first values are normal numbers of deviation 1 unless `init` says otherwise.
  constexpr Embedding(const MeshType& mesh, Index vocabulary, Index features,
                      Init init = Init::normal(1)) requires WellFormed<Problem>
      : table(mesh, detail::weight_extents<Element>("Embedding", Shape<2>{vocabulary, features}), init) {
    if constexpr (looks_up_in_shards) table.cell()->on_demand = true;
  }
  template <IllFormed Why = Problem>
  Embedding(const MeshType&, Index, Index, Init = Init::normal(1)) = delete;  // see Why
  template <IllFormed Why = WrittenOtherwise<Hint::pass_the_mesh_first>>
  Embedding(Index, Index, Init = Init::normal(1)) = delete;  // see Why

  /// tokens: integers [t…]; the result is [t…, features].
  constexpr auto forward(const Operand auto& tokens) const {
    return detail::redistribute_output<Style>(looked_up(own_positions(tokens)));
  }
  constexpr void visit(auto&& f) { f("weight", table); }

  TableParameter table;

 private:
  static constexpr const ParameterLayouts& layouts = TableParameter::layouts;
  /// Whether the table is stored in shards, and its gradient in the same ones.
  static constexpr bool looks_up_in_shards =
      layouts.gathered && cotangent(layouts.stored) == layouts.accumulated &&
      std::is_same_v<Element, T>;  // else rows may be cut within a block
  static constexpr bool cut(int axis) { return layouts.stored[axis] != layouts.used[axis]; }

  /// The tokens that this rank looks up: a style that shards the input, but not the table, shards them.
  template <Operand Tokens>
  constexpr auto own_positions(const Tokens& tokens) const {
    using Ids = tensor_of<Tokens>;
    if constexpr (IllFormed<Ids>) {
      return tokens;
    } else {
      constexpr Layout own = detail::style_layout<Style, MeshType>(
          [](int axis) { return Ids::layout[axis]; },
          [](auto part, int axis) {
            const Placement input = part.input(Ids::layout[axis], 0);
            return part.weight(1, 0) == reduced && input.is_shard() ? input : Ids::layout[axis];
          });
      if constexpr (own == Ids::layout) {
        return tokens;
      } else {
        return redistribute_to<with_layout<Ids, packed(own)>>(tokens);
      }
    }
  }
  template <Operand Tokens>
  constexpr auto looked_up(const Tokens& tokens) const {
    using Y = result_of<detail::op_for<EmbeddingOp, TableParameter>, Tokens, TableParameter>;
    if constexpr (!looks_up_in_shards || AbstractOperand<Tokens> || IllFormed<tensor_of<Y>>) {
      return embedding(tokens, table);
    } else {
      if (few(value_of(tokens)))
        return looked_up_in_shards<Y>(tokens);  // (g++ 12 miscounts the handles of `?:`)
      return embedding(tokens, table);
    }
  }
  /// Whether the ranks that share the table have at most as many tokens as it has rows: then sending rows is cheaper.
  template <TensorType Ids>
  constexpr bool few(const Ids& ids) const {
    Index tokens = local_box(ids.shape(), Ids::layout, ids.mesh().sizes(), MeshSizes{}).elements();
    for (int axis = 0; axis < MeshType::axes; ++axis) {
      if (cut(axis)) tokens *= ids.mesh().sizes()[axis];
    }
    return tokens <= table.shape()[0];
  }
  /// Each rank looks up its own rows or columns for the tokens of all ranks; then the ranks exchange the results.
  template <class Y, Operand Tokens>
  constexpr auto looked_up_in_shards(const Tokens& tokens) const {
    using Ids = tensor_of<Tokens>;
    constexpr Layout all =
        Layout::by_axis(MeshType::axes, [](int axis) { return cut(axis) ? replicate : Ids::layout[axis]; });
    const auto ids = redistribute_to<with_layout<Ids, packed(all)>>(value_of(tokens));
    return redistribute_to<tensor_of<Y>>(embedding(alongside(ids, tokens), AsStored<TableParameter>{table}),
                                         table.cell()->communication);
  }
};

}  // namespace shardwise
