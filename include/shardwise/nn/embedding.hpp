// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `Embedding`: rows of a table [vocabulary, features] by token. `ColwiseParallel` splits the features and
/// needs no communication; `RowwiseParallel` splits the vocabulary, looks up what it has, and adds up once.

#include <shardwise/nn/module.hpp>
#include <shardwise/nn/style.hpp>
#include <shardwise/ops/embedding.hpp>

namespace shardwise {

template <class MeshType, ParallelStyle Style = NoParallel, class T = float>
class Embedding {
 public:
  using Table = tensor_with<T, 2, MeshType, detail::WeightCodes<Style, MeshType, 1, 0>>;

  constexpr Embedding(const MeshType& mesh, Index vocabulary, Index features, Init init = Init::normal(1))
      : table(mesh, {vocabulary, features}, init) {}

  /// tokens: integers [t…]; the result is [t…, features].
  template <Operand Tokens, class Result = result_of<EmbeddingOp, tensor_of<Tokens>, Table>>
  constexpr auto operator()(const Tokens& tokens) const {
    return redistribute_to<detail::with_codes<Result, detail::OutputCodes<Style, Result>>>(
        shardwise::embedding(tokens, table));
  }
  template <Operand Tokens, IllFormed Why = result_of<EmbeddingOp, tensor_of<Tokens>, Table>>
  Why operator()(const Tokens&) const = delete;  // see Why

  constexpr void visit(auto&& f) { f("weight", table); }

  Parameter<Table> table;
};

}  // namespace shardwise
