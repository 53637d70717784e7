// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// user_mlp.cpp, and in it a training step of a transformer of 32 layers, planned inside the compiler.

#include "user_mlp.cpp"

namespace {

using Mesh = sw::Mesh<sw::dp, sw::tp>;

struct Block : sw::Module<Block> {
  constexpr Block(const Mesh& mesh, sw::Index features, sw::Index heads, sw::Index hidden)
      : norm1(mesh, features),
        attention(mesh, features, heads),
        norm2(mesh, features),
        mlp(mesh, features, hidden) {}
  constexpr auto forward(const auto& x) const {
    auto h = add(x, attention(norm1(x)));
    return add(h, mlp(norm2(h)));
  }
  constexpr void visit(auto&& f) {
    f("norm1", norm1);
    f("attention", attention);
    f("norm2", norm2);
    f("mlp", mlp);
  }

  sw::LayerNorm<Mesh> norm1;
  sw::Attention<Mesh> attention;
  sw::LayerNorm<Mesh> norm2;
  sw::Mlp<Mesh> mlp;
};

struct Model : sw::Module<Model> {
  constexpr Model(const Mesh& mesh, sw::Index vocabulary, sw::Index context, sw::Index features,
                  sw::Index heads, sw::Index hidden, sw::Index layers)
      : tokens(mesh, vocabulary, features),
        positions(mesh, context, features),
        norm(mesh, features),
        head(mesh, features, vocabulary) {
    for (sw::Index i = 0; i < layers; ++i) blocks.emplace_back(mesh, features, heads, hidden);
  }
  constexpr auto forward(const auto& ids) const {
    return head(norm(sw::sequential(add(tokens(ids), alongside(positions.table, ids)), blocks)));
  }
  constexpr void visit(auto&& f) {
    f("tokens", tokens);
    f("positions", positions);
    f("blocks", blocks);
    f("norm", norm);
    f("head", head);
  }

  sw::Embedding<Mesh, sw::RowwiseParallel<sw::tp>> tokens;
  sw::Embedding<Mesh> positions;
  std::vector<Block> blocks;
  sw::LayerNorm<Mesh> norm;
  sw::Linear<Mesh, sw::ColwiseParallel<sw::tp, sw::output<sw::Replicate>>> head;
};

/// A step of Llama 7B's dimensions: one sequence a group, heads and features split.
constexpr auto step = sw::trace<Mesh>({2, 8}, [](const Mesh& mesh) {
  Model model(mesh, 32000, 2048, 4096, 32, 11008, 32);
  sw::AdamW optimizer;
  sw::Tape tape;
  const auto ids = sw::empty<std::int32_t, sw::Shard<0>, sw::Replicate>(mesh, {2, 2048});
  tape.backward(sw::CrossEntropyLoss()(model(tape.constant(ids)), ids));
  optimizer.step(model);
});

/// Along tp, each block reduces twice forward and twice backward; the embedding adds one forward, the head
/// one backward.
static_assert(step.count<sw::tp>(sw::Collective::all_reduce) == 4 * 32 + 2);
static_assert(step.count(sw::Collective::all_reduce, sw::Phase::backward) == 2 * 32 + 1);
static_assert(step.peak_activation_bytes() < std::int64_t{64} << 30);

}  // namespace
