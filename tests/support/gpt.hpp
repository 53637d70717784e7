// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A GPT as a user of the library writes it: pre-norm blocks with two all-reduces forward and two backward, between
/// embeddings and a head (Radford et al., "Language models are unsupervised multitask learners", 2019).

#include <vector>

#include <shardwise/module/sequential.hpp>
#include <shardwise/nn/attention.hpp>
#include <shardwise/nn/embedding.hpp>
#include <shardwise/nn/layer_norm.hpp>
#include <shardwise/nn/mlp.hpp>
#include <shardwise/ops/add.hpp>

struct GptConfig {
  shardwise::Index vocabulary = 256, context = 128, features = 128, heads = 4, hidden = 512, layers = 4;
};

template <class Mesh, class T = float>
struct GptBlock : shardwise::Module<GptBlock<Mesh, T>> {
  constexpr GptBlock(const Mesh& mesh, shardwise::Index features, shardwise::Index heads,
                     shardwise::Index hidden)
      : norm1(mesh, features),
        attention(mesh, features, heads),
        norm2(mesh, features),
        mlp(mesh, features, hidden) {}

  /// x: [batch, sequence, features], and so is the result.
  constexpr auto forward(const auto& x) const {
    auto in = shardwise::reduced_on_data_axes(x);
    auto h = add(in, attention(norm1(in)));
    return add(h, mlp(norm2(h)));
  }
  constexpr void visit(auto&& f) {
    f("norm1", norm1);
    f("attention", attention);
    f("norm2", norm2);
    f("mlp", mlp);
  }

  shardwise::LayerNorm<Mesh, shardwise::NoParallel, T> norm1;
  shardwise::Attention<Mesh, T> attention;
  shardwise::LayerNorm<Mesh, shardwise::NoParallel, T> norm2;
  shardwise::Mlp<Mesh, T> mlp;
};

template <class Mesh, class T = float>
struct Gpt : shardwise::Module<Gpt<Mesh, T>> {
  constexpr Gpt(const Mesh& mesh, const GptConfig& config)
      : tokens(mesh, config.vocabulary, config.features, shardwise::Init::normal(0.02)),
        positions(mesh, config.context, config.features, shardwise::Init::normal(0.02)),
        norm(mesh, config.features),
        head(mesh, config.features, config.vocabulary),
        context(config.context) {
    blocks.reserve(static_cast<std::size_t>(config.layers));
    for (shardwise::Index i = 0; i < config.layers; ++i) {
      blocks.emplace_back(mesh, config.features, config.heads, config.hidden);
    }
  }

  /// ids: integers [batch, context]; the result is [batch, context, vocabulary].
  constexpr auto forward(const auto& ids) const {
    if (ids.shape()[1] != context) {
      throw std::invalid_argument("Gpt: sequences of " + std::to_string(ids.shape()[1]) +
                                  " tokens, where the context is " + std::to_string(context));
    }
    auto x = add(tokens(ids), alongside(positions.table, ids));
    return head(norm(shardwise::sequential(x, blocks)));
  }
  constexpr void visit(auto&& f) {
    f("tokens", tokens);
    f("positions", positions.table);
    f("blocks", blocks);
    f("norm", norm);
    f("head", head);
  }

  shardwise::Embedding<Mesh, shardwise::RowwiseParallel<shardwise::tp>, T> tokens;
  shardwise::Embedding<Mesh, shardwise::NoParallel, T> positions;
  std::vector<GptBlock<Mesh, T>> blocks;
  shardwise::LayerNorm<Mesh, shardwise::NoParallel, T> norm;
  shardwise::Linear<Mesh, shardwise::ColwiseParallel<shardwise::tp, shardwise::output<shardwise::Replicate>>,
                    T>
      head;
  shardwise::Index context;
};
