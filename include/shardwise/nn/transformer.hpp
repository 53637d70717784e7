// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `TransformerBlock`: attention and MLP, each behind a layer norm and beside a residual connection
/// (pre-norm, as in GPT-2). Tensor parallel: two all-reduces forward and two backward. `LanguageModel` stacks
/// them between embeddings and a head.

#include <vector>

#include <shardwise/nn/attention.hpp>
#include <shardwise/nn/embedding.hpp>
#include <shardwise/nn/layer_norm.hpp>
#include <shardwise/nn/mlp.hpp>
#include <shardwise/ops/add.hpp>

namespace shardwise {

template <class MeshType, class T = float>
class TransformerBlock {
 public:
  constexpr TransformerBlock(const MeshType& mesh, Index features, Index heads, Index hidden)
      : norm1(mesh, features),
        attention(mesh, features, heads),
        norm2(mesh, features),
        mlp(mesh, features, hidden) {}

  /// x: [batch, sequence, features], and so is the result.
  constexpr auto operator()(const auto& x) const {
    auto in = enter(x);
    auto h = add(in, attention(norm1(in)));
    return add(h, mlp(norm2(h)));
  }

  constexpr void visit(auto&& f) {
    f("norm1", norm1);
    f("attention", attention);
    f("norm2", norm2);
    f("mlp", mlp);
  }

  LayerNorm<MeshType, T> norm1;
  Attention<MeshType, T> attention;
  LayerNorm<MeshType, T> norm2;
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
  using Positions = tensor_with<T, 2, MeshType, detail::BiasCodes<NoParallel, MeshType>>;
  using Head = Linear<MeshType, ColwiseParallel<tp, output<Replicate>>, T>;

  constexpr LanguageModel(const MeshType& mesh, const LanguageModelConfig& config)
      : tokens(mesh, config.vocabulary, config.features, Init::normal(0.02)),
        positions(mesh, {config.context, config.features}, Init::normal(0.02)),
        norm(mesh, config.features),
        head(mesh, config.features, config.vocabulary) {
    blocks.reserve(static_cast<std::size_t>(config.layers));
    for (Index i = 0; i < config.layers; ++i) {
      blocks.emplace_back(mesh, config.features, config.heads, config.hidden);
    }
  }

  /// ids: integers [batch, context]; the result is [batch, context, vocabulary].
  constexpr auto operator()(const auto& ids) const {
    auto x = add(tokens(ids), alongside(positions, ids));
    for (const auto& block : blocks) x = block(x);
    return head(norm(x));
  }

  constexpr void visit(auto&& f) {
    f("tokens", tokens);
    f("positions", positions);
    f("blocks", blocks);
    f("norm", norm);
    f("head", head);
  }

  Embedding<MeshType, RowwiseParallel<tp>, T> tokens;
  Parameter<Positions> positions;
  std::vector<TransformerBlock<MeshType, T>> blocks;
  LayerNorm<MeshType, T> norm;
  Head head;
};

}  // namespace shardwise
