// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Sequences that are sharded from end to end: each way of attention gives what one rank computes, with the collectives of
/// its table, alone and beside everything else.

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/nn/cross_entropy_loss.hpp>
#include <shardwise/nn/ring_attention.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/reshape.hpp>
#include <shardwise/parallel/context_parallel.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/clip.hpp>

#include <vector>

#include "module_check.hpp"

namespace shardwise::testing::context_parallel {

using namespace shardwise::llm;
namespace sw = shardwise;
using sw::AxisList;
using sw::cp;
using sw::dp;
using sw::GatherKeys;
using sw::Index;
using sw::NoParallel;
using sw::Replicate;
using sw::Ring;
using sw::Shard;
using sw::tp;
using sw::Ulysses;
using sw::UlyssesShared;
using sw::llm::LlamaConfig;

namespace {

std::string expect(const char* text) { return sw::world().size() > 1 ? text : " / "; }

/// Collectives, and messages, forward and backward.
std::string traffic_and_messages(const auto& plan) {
  if (mpi_counter::counting()) {
    CHECK(mpi_counter::counts().send.calls == plan.count(sw::Collective::send));
    CHECK(mpi_counter::counts().send.bytes == plan.bytes());
  }
  const auto sent = [&](sw::Phase phase) { return std::to_string(plan.count(sw::Collective::send, phase)); };
  return traffic(plan) + "; " + sent(sw::Phase::forward) + " / " + sent(sw::Phase::backward);
}

template <class Inner>
struct MakeAttention {
  template <class MeshType>
  auto operator()(const MeshType& mesh) const {
    return sw::Attention<MeshType, double, NoParallel, NoParallel, Inner>(mesh, 24, 24);
  }
};

template <class Inner>
auto attention(Index length) {
  const sw::Mesh<cp> mesh(sw::world(), {sw::any});
  const sw::Shape<3> shape{2, length, 24};
  return check_module(mesh, MakeAttention<Inner>{}, Normal<Shard<1>>{shape}, MakeAttention<NoParallel>{},
                      Normal<Replicate>{shape});
}

/// q, k and v are x, in the layout that they get: heads of four features.
template <class Inner>
struct Bare : sw::Module<Bare<Inner>> {
  explicit Bare(const sw::AttentionOptions& all) : options(all) {}
  constexpr auto forward(const auto& x) const {
    const auto heads = sw::reshape(x, {x.shape()[0], x.shape()[1], 3, 4});
    return sw::reshape(inner(sw::scale(heads, 0.5), heads, sw::scale(heads, 2.), options), x.shape());
  }
  constexpr void visit(auto&&) {}
  sw::styled<sw::InnerAttention, Inner> inner;
  sw::AttentionOptions options;
};
template <class Inner>
struct MakeBare {
  sw::AttentionOptions options;
  auto operator()(const auto&) const { return Bare<Inner>(options); }
};
template <class Inner>
auto bare(Index length, const sw::AttentionOptions& options) {
  const sw::Mesh<cp> mesh(sw::world(), {sw::any});
  const sw::Shape<3> shape{2, length, 12};
  return check_module(mesh, MakeBare<Inner>{options}, Normal<Shard<1>>{shape}, MakeBare<NoParallel>{options},
                      Normal<Replicate>{shape});
}

/// A layer with grouped heads.
template <class PlanType>
struct MakeLayer {
  template <class MeshType>
  auto operator()(const MeshType& mesh) const {
    const Index heads = 2 * sw::world().size();
    const LlamaConfig config{
        .features = 12, .heads = 2 * heads, .kv_heads = heads, .head_dim = 4, .hidden = 10, .deviation = 0.3};
    return sw::llm::LlamaLayer<MeshType, sw::PlanBelow<PlanType, "layers.*">, double>(mesh, config);
  }
};

using Alone = sw::llm::LlamaPlan<NoParallel, NoParallel, NoParallel, NoParallel>;
template <class PlanType, class Inner>
using With = sw::PlanAnd<PlanType, sw::Use<"layers.*.attention.inner_attention", Inner>>;

using Cube = sw::Mesh<dp, cp, tp>;
using Tensor = sw::llm::LlamaTensorParallel<tp>;
using Sequence = sw::llm::LlamaSequenceParallel<tp>;

/// `Tensors`: how the input lies on tp.
template <class PlanType, class Tensors>
std::string layer(const Cube& mesh) {
  const sw::Shape<3> shape{2, 13, 12};
  return traffic(check_module(mesh, MakeLayer<PlanType>{}, Normal<Shard<0>, Shard<1>, Tensors>{shape},
                              MakeLayer<Alone>{}, Normal<Replicate>{shape}));
}

}  // namespace

TEST_CASE("attention whose sequences are sharded") {
  for (const Index length : {1, 7, 13, 64}) {
    CAPTURE(length);
    CHECK(traffic(attention<GatherKeys<cp>>(length)) == expect("all_gather 2 / reduce_scatter 2"));
    CHECK(traffic(attention<Ulysses<cp>>(length)) == expect("all_to_all 4 / all_to_all 4"));
    CHECK(traffic(attention<UlyssesShared<cp>>(length)) ==
          expect("all_gather 2, all_to_all 2 / reduce_scatter 2, all_to_all 2"));
    CHECK(traffic(attention<Ring<cp>>(length)) == " / ");
  }
}

TEST_CASE("a ring: blocks go as far as queries see them") {
  const Index ranks = sw::world().size(), mine = sw::world().rank();
  const Index length = 3 * ranks;  // three positions a rank
  const auto messages = [](Index forward, Index backward) {
    return " / ; " + std::to_string(forward) + " / " + std::to_string(backward);
  };
  // Whole: all go round, keys and values; gradients go with them, up to their home.
  const Index round = 2 * (ranks - 1), back = ranks == 1 ? 0 : round + 2 * ranks;
  CHECK(traffic_and_messages(bare<Ring<cp>>(length, {.causal = false})) == messages(round, back));
  // Causal: as many; and halves of two rows are exchanged with the mirror, of q, k, v and o; of o, do, dq, dk and dv.
  const Index rows = 2 * mine + 1 == ranks ? 0 : 2;
  CHECK(traffic_and_messages(bare<Ring<cp>>(length, {})) == messages(round + 4 * rows, back + 5 * rows));
  // Nobody sees more than what lies on the rank before.
  const Index ahead = mine == ranks - 1 ? 0 : 2;
  CHECK(traffic_and_messages(bare<Ring<cp>>(length, {.window = 3})) ==
        messages(ahead, 2 * ahead + (mine > 0 ? 2 : 0)));
  CHECK(traffic_and_messages(bare<Ring<cp>>(length, {.window = 1})) == messages(0, 0));
  for (const Index other : {1, 2, 5, 64}) {
    for (const Index window : {2, 4, 30, 40}) {
      bare<Ring<cp>>(other, {.window = window});
      bare<Ring<cp>>(other, {.causal = false, .window = window});
    }
  }
}

TEST_CASE("what is dropped does not depend on who has it") {
  bare<Ring<cp>>(13, {.dropout = 0.4, .seed = 5});
  bare<GatherKeys<cp>>(13, {.dropout = 0.4, .seed = 5});
}

TEST_CASE("queries are sharded along another axis as well") {
  for (const auto& mesh : all_meshes<tp, cp>()) {
    for (const sw::AttentionOptions& options : {sw::AttentionOptions(), {.causal = false}, {.window = 3}}) {
      const auto k = sw::randn<double, Replicate, Shard<1>>(mesh, {2, 13, 3, 4}, 2);
      const auto whole = [&](const auto& attend, const auto& keys) {
        return sw::full_tensor(attend(sw::randn<double, Shard<1>, Shard<1>>(mesh, {2, 13, 3, 4}, 1),
                                      sw::redistribute<sw::Reduced, Shard<1>>(keys),
                                      sw::redistribute<sw::Reduced, Shard<1>>(keys), options));
      };
      const auto ring = whole(sw::RingAttention<cp>(), k);
      const auto gathered = whole(sw::styled<sw::InnerAttention, GatherKeys<cp>>(), k);
      CHECK((ring - gathered).cwiseAbs().maxCoeff() < 1e-13);
    }
  }
}

TEST_CASE("key/value heads that ranks cannot share: the style that replicates them is named") {
  const sw::Mesh<cp> mesh(sw::world(), {sw::any});
  const Index ranks = mesh.size();
  const auto q = sw::randn<double, Shard<1>>(mesh, {1, 5, 2 * ranks, 4}, 1),
             k = sw::randn<double, Shard<1>>(mesh, {1, 5, 1, 4}, 2);
  CHECK_NOTHROW(sw::styled<sw::InnerAttention, UlyssesShared<cp>>()(q, k, k, sw::AttentionOptions()));
  const auto refused = [&] {
    sw::styled<sw::InnerAttention, Ulysses<cp>>()(q, k, k, sw::AttentionOptions());
  };
  if (ranks == 1) return;
  CHECK_THROWS_WITH_AS(refused(), doctest::Contains("UlyssesShared does so where Ulysses shards them"),
                       std::invalid_argument);
}

TEST_CASE("a layer on ranks that share heads, too") {
  const int ranks = sw::world().size();
  for (int tensor = 1; tensor <= ranks; ++tensor) {
    if (ranks % tensor != 0) continue;
    const Cube mesh(sw::world(), {1, sw::any, tensor});
    const bool heads = mesh.template size<tp>() > 1, context = mesh.template size<cp>() > 1;
    const std::string sum = heads ? "all_reduce 2" : "", both = heads && context ? ", " : "";
    const std::string exchange = sum + both + (context ? "all_to_all 4" : "");
    CHECK(layer<With<Tensor, Ulysses<cp>>, Replicate>(mesh) == exchange + " / " + exchange);
    CHECK(layer<With<Tensor, Ring<cp>>, Replicate>(mesh) == sum + " / " + sum);
    CHECK(layer<With<Tensor, GatherKeys<cp>>, Replicate>(mesh) ==
          sum + both + (context ? "all_gather 2" : "") + " / " + sum + both +
              (context ? "reduce_scatter 2" : ""));

    // Positions are shared twice.
    const Index of_heads = heads ? 2 : 0, of_context = context ? 2 : 0;
    const auto counts = [](Index gathers, Index scatters) {
      std::string text = gathers > 0 ? "all_gather " + std::to_string(gathers) : "";
      if (scatters > 0)
        text += (gathers > 0 ? ", reduce_scatter " : "reduce_scatter ") + std::to_string(scatters);
      return text;
    };
    CHECK(layer<With<Sequence, GatherKeys<cp>>, Shard<1>>(mesh) ==
          counts(of_heads + of_context, of_heads) + " / " + counts(of_heads, of_heads + of_context));
    CHECK(layer<With<Sequence, Ring<cp>>, Shard<1>>(mesh) ==
          counts(of_heads, of_heads) + " / " + counts(of_heads, of_heads));
  }
}

namespace {

constexpr LlamaConfig with_heads(Index kv_heads) {
  return {.vocabulary = 13,
          .features = 12,
          .layers = 2,
          .heads = 8,
          .kv_heads = kv_heads,
          .head_dim = 4,
          .hidden = 10};
}
constexpr Index rows = 3, length = 13;

template <class... Placements>
auto integers(const Cube& mesh, auto number) {
  std::vector<std::int32_t> all;
  for (Index row = 0; row < rows; ++row) {
    for (Index i = 0; i < length; ++i) all.push_back(static_cast<std::int32_t>(number(row, i)));
  }
  return sw::distribute<Placements...>(mesh, sw::Shape<2>{rows, length}, std::span<const std::int32_t>(all));
}

/// Losses of some steps, in which each row has two documents and some padding.
template <class PlanType>
std::vector<double> trained(const Cube& mesh, Index kv_heads, bool recompute) {
  sw::llm::Llama<Cube, PlanType, double> model(mesh, with_heads(kv_heads));
  sw::initialize(model, 3);
  model.recompute_layers = recompute;
  sw::AdamW optimizer({.rate = 1e-2});
  const auto documents = integers<Shard<0>, Replicate, Replicate>(mesh, [](Index row, Index i) {
    return i > 11 ? -1 : i > 4 + row ? 1 : 0;
  });
  std::vector<double> losses;
  for (int step = 0; step < 4; ++step) {
    const auto token = [=](Index row, Index i) { return (row * 3 + i * (2 + row % 2) + step) % 13; };
    const auto ids = integers<Shard<0>, Shard<1>, Replicate>(mesh, token);
    const auto targets = integers<Shard<0>, Shard<1>, Replicate>(
        mesh, [&](Index row, Index i) { return i >= 11 ? -100 : token(row, i + 1); });
    sw::Tape tape;
    const auto loss = sw::CrossEntropyLoss()(model(tape.constant(ids), documents), targets);
    tape.backward(loss);
    sw::clip_gradients(model, 0.5);
    optimizer.step(model);
    losses.push_back(sw::item(loss.value()));
  }
  return losses;
}

using Sharded = sw::PlanWith<With<Tensor, Ring<cp>>, sw::FullyShard<AxisList<dp, cp>>>;

template <class PlanType>
void check_training(Index kv_heads) {
  const auto expected = trained<Sharded>(Cube(sw::self(), {1, 1, 1}), kv_heads, false);
  CHECK(expected.back() < expected.front());
  const int ranks = sw::world().size();
  for (int data = 1; data <= ranks; ++data) {
    for (int tensor = 1; tensor <= ranks / data; ++tensor) {
      if (ranks % (data * tensor) != 0 || (tensor != 1 && tensor != 2 && tensor != 4)) continue;
      const Cube mesh(sw::world(), {data, sw::any, tensor});
      CAPTURE(data);
      CAPTURE(tensor);
      const auto losses = trained<PlanType>(mesh, kv_heads, data == 1);
      for (std::size_t step = 0; step < losses.size(); ++step) {
        CHECK(losses[step] == doctest::Approx(expected[step]).epsilon(1e-12));
      }
    }
  }
}

}  // namespace

TEST_CASE("a Llama of long sequences learns what one rank does: documents, data, ZeRO, recomputation") {
  check_training<Sharded>(4);
  check_training<With<Sequence, GatherKeys<cp>>>(4);
  check_training<sw::PlanWith<With<Tensor, Ulysses<cp>>, sw::Zero<1, cp>>>(8);
}

TEST_CASE("the memory of activations falls as the number of ranks rises, and so does the work") {
  const auto step = [](const auto& mesh) {
    using MeshOf = std::remove_cvref_t<decltype(mesh)>;
    LlamaConfig config = with_heads(4);
    config.features = 64;
    sw::llm::Llama<MeshOf, With<Tensor, Ring<cp>>, double> model(mesh, config);
    model.recompute_layers = true;
    sw::Tape tape;
    const auto ids = sw::empty<std::int32_t, Shard<0>, Shard<1>, Replicate>(mesh, {1, 4096});
    tape.backward(sw::CrossEntropyLoss()(model(tape.constant(ids)), ids));
  };
  using Grid = sw::Mesh<dp, cp, tp>;
  const auto whole = sw::trace<Grid>({1, 1, 1}, step);
  for (const int ranks : {2, 4, 8}) {
    std::int64_t flops = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto plan = sw::trace<Grid>({1, ranks, 1}, step, {0, rank, 0});
      CHECK(plan.peak_activation_bytes() * ranks * 20 <= whole.peak_activation_bytes() * 21);
      flops += plan.flops();
    }
    CHECK(static_cast<double>(flops) == doctest::Approx(static_cast<double>(whole.flops())).epsilon(0.001));
  }
}

}  // namespace shardwise::testing::context_parallel
