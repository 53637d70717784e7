// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `Embedding`: rows of a table [vocabulary, features] by token. `ColwiseParallel` splits the features and
/// needs no communication; `RowwiseParallel` splits the vocabulary, looks up what it has, and adds up once.

#include <shardwise/layout/diagnosis.hpp>

#include <shardwise/module/module.hpp>
#include <shardwise/ops/embedding.hpp>
#include <shardwise/parallel/style_problem.hpp>
#include <shardwise/parallel/styled.hpp>

namespace shardwise {

template <class MeshType, ParallelStyle Style = NoParallel, class T = float>
class Embedding : public Module<Embedding<MeshType, Style, T>> {
 public:
  using Table = tensor_with<T, 2, MeshType, packed(detail::weight_layout<Style, MeshType>(1, 0))>;
  using TableParameter = detail::StyledWeight<Style, Table, 1>;
  using Problem = detail::style_problem<MeshType, ModuleKind::embedding, Style>;

  constexpr Embedding(const MeshType& mesh, Index vocabulary, Index features,
                      Init init = Init::normal(1)) requires WellFormed<Problem>
      : table(mesh, {vocabulary, features}, init) {}
  template <IllFormed Why = Problem>
  Embedding(const MeshType&, Index, Index, Init = Init::normal(1)) = delete;  // see Why

  /// tokens: integers [t…]; the result is [t…, features].
  constexpr auto forward(const Operand auto& tokens) const {
    return detail::give<Style>(embedding(tokens, table));
  }
  constexpr void visit(auto&& f) { f("weight", table); }

  TableParameter table;
};

}  // namespace shardwise
