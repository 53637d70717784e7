// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `TransformerBlock`: attention and MLP, each behind a layer norm and beside a residual connection
/// (pre-norm, as in GPT-2). Tensor parallel: two all-reduces forward and two backward. `LanguageModel` stacks
/// them between embeddings and a head.

#include <vector>

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/nn/attention.hpp>
#include <shardwise/nn/embedding.hpp>
#include <shardwise/nn/layer_norm.hpp>
#include <shardwise/nn/mlp.hpp>
#include <shardwise/nn/residual.hpp>

namespace shardwise {

template <class MeshType, class T = float>
class TransformerBlock {
 public:
  using Problem =
      detail::style_problem<MeshType, ModuleKind::linear, ColwiseParallel<tp>, RowwiseParallel<tp>>;
  using Norm = LayerNorm<MeshType, NoParallel, T>;
  template <class X>
  using Attended =
      typename detail::Residual<detail::entered<X>,
                                detail::through<detail::entered<X>, Norm::template ResultOf,
                                                Attention<MeshType, T>::template ResultOf>>::type;
  template <class H>
  using Finished = typename detail::Residual<
      H, detail::through<H, Norm::template ResultOf, Mlp<MeshType, T>::template ResultOf>>::type;
  /// What a call with an `X` gives, or the `LayoutError` that says why none.
  template <class X>
  using ResultOf = detail::through<X, Attended, Finished>;

  constexpr TransformerBlock(const MeshType& mesh, Index features, Index heads,
                             Index hidden) requires(WellFormed<Problem>)
      : norm1(mesh, features),
        attention(mesh, features, heads),
        norm2(mesh, features),
        mlp(mesh, features, hidden) {}

  template <IllFormed Why = Problem>
  TransformerBlock(const MeshType&, Index, Index, Index) = delete;  // see Why

  /// x: [batch, sequence, features], and so is the result.
  template <Operand X, class Result = ResultOf<X>>
  constexpr auto operator()(const X& x) const {
    auto in = enter(x);
    auto h = add(in, attention(norm1(in)));
    return add(h, mlp(norm2(h)));
  }
  template <Operand X, IllFormed Why = ResultOf<X>>
  Why operator()(const X&) const;  // see Why

  constexpr void visit(auto&& f) {
    f("norm1", norm1);
    f("attention", attention);
    f("norm2", norm2);
    f("mlp", mlp);
  }

  Norm norm1;
  Attention<MeshType, T> attention;
  Norm norm2;
  Mlp<MeshType, T> mlp;
};

struct LanguageModelConfig {
  Index vocabulary = 256;
  Index context = 128;  ///< tokens that a prediction may look back on
  Index features = 128;
  Index heads = 4;
  Index hidden = 512;  ///< of the MLPs
  Index layers = 4;
};

/// A decoder-only transformer: token and position embeddings, blocks, a norm, and a head that gives logits.
template <class MeshType, class T = float>
class LanguageModel {
 public:
  using Positions = tensor_with<T, 2, MeshType, packed(detail::bias_layout<NoParallel, MeshType>())>;
  using Head = Linear<MeshType, ColwiseParallel<tp, output<Replicate>>, T>;
  using Tokens = Embedding<MeshType, RowwiseParallel<tp>, T>;
  using Block = TransformerBlock<MeshType, T>;
  using Norm = LayerNorm<MeshType, NoParallel, T>;
  using Problem = typename Block::Problem;
  template <class Y>
  using Positioned = result_of<AddOpFor<Y, Positions>, Y, Positions>;
  /// What a call with `Ids` gives, or the `LayoutError` that says why none.
  template <class Ids>
  using ResultOf = detail::through<Ids, Tokens::template ResultOf, Positioned, Block::template ResultOf,
                                   Norm::template ResultOf, Head::template ResultOf>;

  constexpr LanguageModel(const MeshType& mesh,
                          const LanguageModelConfig& config) requires(WellFormed<Problem>)
      : tokens(mesh, config.vocabulary, config.features, Init::normal(0.02)),
        positions(mesh, {config.context, config.features}, Init::normal(0.02)),
        norm(mesh, config.features),
        head(mesh, config.features, config.vocabulary) {
    blocks.reserve(static_cast<std::size_t>(config.layers));
    for (Index i = 0; i < config.layers; ++i) {
      blocks.emplace_back(mesh, config.features, config.heads, config.hidden);
    }
  }

  template <IllFormed Why = Problem>
  LanguageModel(const MeshType&, const LanguageModelConfig&) = delete;  // see Why

  /// ids: integers [batch, context]; the result is [batch, context, vocabulary]. Throws
  /// `std::invalid_argument` for sequences of another length.
  template <Operand Ids, class Result = ResultOf<Ids>>
  constexpr auto operator()(const Ids& ids) const {
    const Index length = value_of(ids).shape()[1], context = positions.shape()[0];
    if (length != context) {
      throw std::invalid_argument("LanguageModel: sequences of " + std::to_string(length) +
                                  " tokens, where the model's context is " + std::to_string(context));
    }
    auto x = add(tokens(ids), alongside(positions, ids));
    for (const auto& block : blocks) x = block(x);
    return head(norm(x));
  }
  template <Operand Ids, IllFormed Why = ResultOf<Ids>>
  Why operator()(const Ids&) const;  // see Why

  constexpr void visit(auto&& f) {
    f("tokens", tokens);
    f("positions", positions);
    f("blocks", blocks);
    f("norm", norm);
    f("head", head);
  }

  Tokens tokens;
  Parameter<Positions> positions;
  std::vector<Block> blocks;
  Norm norm;
  Head head;
};

}  // namespace shardwise
