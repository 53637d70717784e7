// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The plans of modules: what the dry run foresees, what the mesh records and what MPI is asked for are the
/// same, and no more than is needed.

#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/tensor/factories.hpp>
#include <shardwise/train/sgd.hpp>
#include <support/plans.hpp>
#include "support/gpt.hpp"

namespace shardwise::testing::plan_modules {
namespace sw = shardwise;
using sw::Collective;
using sw::dp;
using sw::Index;
using sw::Phase;
using sw::Reduced;
using sw::Replicate;
using sw::Shard;
using sw::tp;

namespace {

/// A training step of a module on an input [rows, sequence, features] that lies as `Input`, with SGD.
template <class Input, bool InputGradient, class Make>
auto training_step(const sw::Shape<3>& shape, Make make) {
  return [=](const auto& mesh) {
    using MeshType = std::remove_cvref_t<decltype(mesh)>;
    sw::Tensor<float, 3, MeshType, Shard<0>, Input> x(mesh, shape);
    sw::fill_normal(x, 1);
    auto module = make(mesh);
    sw::initialize(module, 2);
    sw::SGD sgd({.rate = 0.1, .momentum = 0.5});
    sw::Tape tape;
    auto loss = [&] {
      if constexpr (InputGradient) {
        return sw::mean(module(tape.input(std::move(x))));
      } else {
        return sw::mean(module(tape.constant(std::move(x))));
      }
    }();
    tape.backward(sw::redistribute<Replicate, Replicate>(std::move(loss)));
    sgd.step(module);
  };
}

template <class Out>
struct MakeMlp {
  template <class MeshType>
  constexpr auto operator()(const MeshType& mesh) const {
    return sw::Mlp<MeshType, float, sw::ColwiseParallel<tp>, Out>(mesh, 6, 10);
  }
};
struct MakeAttention {
  template <class MeshType>
  constexpr auto operator()(const MeshType& mesh) const {
    return sw::Attention<MeshType>(mesh, 10, 5);
  }
};
struct MakeBlock {
  template <class MeshType>
  constexpr auto operator()(const MeshType& mesh) const {
    return GptBlock<MeshType>(mesh, 10, 5, 14);
  }
};

constexpr sw::Shape<3> uneven{5, 3, 6};
constexpr sw::Shape<3> attended{5, 4, 10};

std::string row(int forward, int backward, int optimizer) {
  return std::to_string(forward) + " / " + std::to_string(backward) + " / " + std::to_string(optimizer);
}

}  // namespace

TEST_CASE("an MLP, whose result is whole") {
  for (const auto& mesh : data_by_tensor_meshes()) {
    const int on_tp = mesh.size<tp>() > 1 ? 1 : 0;
    const int on_dp = mesh.size<dp>() > 1 ? 1 : 0;
    auto with = agreed_plan(mesh, training_step<Replicate, true>(uneven, MakeMlp<sw::RowwiseParallel<tp>>{}));
    // dp adds up the loss, and in the optimizer the gradients of two weights and two biases together.
    CHECK(calls(with, Collective::all_reduce) == row(on_tp + on_dp, on_tp, on_dp));
    auto without =
        agreed_plan(mesh, training_step<Replicate, false>(uneven, MakeMlp<sw::RowwiseParallel<tp>>{}));
    CHECK(calls(without, Collective::all_reduce) == row(on_tp + on_dp, 0, on_dp));
    CHECK(without.collectives() == without.count(Collective::all_reduce));
    CHECK(without.flops() < with.flops());
  }
}

TEST_CASE("an MLP, whose result is sharded along the sequence") {
  for (const auto& mesh : data_by_tensor_meshes()) {
    const int on_tp = mesh.size<tp>() > 1 ? 1 : 0;
    using Style = sw::RowwiseParallel<tp, sw::output<Shard<1>>>;
    auto whole_input = agreed_plan(mesh, training_step<Replicate, true>(uneven, MakeMlp<Style>{}));
    CHECK(calls(whole_input, Collective::reduce_scatter) == row(on_tp, 0, 0));
    CHECK(calls(whole_input, Collective::all_gather) == row(0, on_tp, 0));
    // Sequence parallel: in and out are sharded, a gather and a scatter in each direction.
    auto sharded_input = agreed_plan(mesh, training_step<Shard<1>, true>(uneven, MakeMlp<Style>{}));
    CHECK(calls(sharded_input, Collective::reduce_scatter) == row(on_tp, on_tp, 0));
    CHECK(calls(sharded_input, Collective::all_gather) == row(on_tp, on_tp, 0));
  }
}

TEST_CASE("an MLP, whose result is sharded along features and samples") {
  for (const auto& mesh : data_by_tensor_meshes()) {
    const int on_tp = mesh.size<tp>() > 1 ? 1 : 0;
    auto features = agreed_plan(mesh, training_step<Replicate, true>(
                                          uneven, MakeMlp<sw::RowwiseParallel<tp, sw::output<Shard<2>>>>{}));
    CHECK(calls(features, Collective::reduce_scatter) == row(on_tp, 0, 0));
    agreed_plan(mesh, training_step<Replicate, true>(
                          uneven, MakeMlp<sw::RowwiseParallel<tp, sw::output<Shard<0>>>>{}));
  }
}

TEST_CASE("attention: the three projections share one reduction backward") {
  for (const auto& mesh : data_by_tensor_meshes()) {
    const int on_tp = mesh.size<tp>() > 1 ? 1 : 0;
    const int on_dp = mesh.size<dp>() > 1 ? 1 : 0;
    auto plan = agreed_plan(mesh, training_step<Replicate, true>(attended, MakeAttention{}));
    CHECK(calls(plan, Collective::all_reduce) == row(on_tp + on_dp, on_tp, on_dp));
    CHECK(plan.collectives() == plan.count(Collective::all_reduce));
  }
}

TEST_CASE("a transformer block: two all-reduces forward, two backward, none in the optimizer") {
  for (const auto& mesh : data_by_tensor_meshes()) {
    const int on_tp = mesh.size<tp>() > 1 ? 1 : 0;
    const int on_dp = mesh.size<dp>() > 1 ? 1 : 0;
    auto plan = agreed_plan(mesh, training_step<Replicate, true>(attended, MakeBlock{}));
    CHECK(calls(plan, Collective::all_reduce) == row(2 * on_tp + on_dp, 2 * on_tp, on_dp));
    CHECK(plan.collectives() == plan.count(Collective::all_reduce));
    // On the tensor axis, the four all-reduces are of activations: [rows of this rank, 4, 10].
    const Index rows = sw::balanced_block(5, mesh.size<dp>(), mesh.rank<dp>()).size;
    CHECK(plan.bytes<tp>() == (4 * on_tp) * rows * 4 * 10 * static_cast<Index>(sizeof(float)));
  }
}

TEST_CASE("a weight that is `Reduced` gathers its gradient through all uses, and is reduced once") {
  for (const auto& mesh : data_by_tensor_meshes()) {
    auto plan = agreed_plan(mesh, [](const auto& m) {
      using MeshType = std::remove_cvref_t<decltype(m)>;
      using Weight = sw::Parameter<sw::Tensor<float, 2, MeshType, Reduced, Replicate>>;
      Weight weight(m, {6, 6}, sw::Init::normal(0.3));
      weight.initialize(3);
      sw::SGD sgd({.rate = 0.1});
      for (int micro_batch = 0; micro_batch < 5; ++micro_batch) {
        sw::Tape tape;
        auto x = sw::randn<float, Shard<0>, Replicate>(m, {7, 6}, 4);
        auto y = sw::linear(sw::linear(sw::linear(tape.constant(x), weight), weight), weight);
        tape.backward(sw::redistribute<Replicate, Replicate>(sw::mean(y)));
      }
      sgd.step(weight);
    });
    const int on_dp = mesh.size<dp>() > 1 ? 1 : 0;
    CHECK(calls(plan, Collective::all_reduce) == row(5 * on_dp, 0, on_dp));
    CHECK(plan.collectives() == plan.count(Collective::all_reduce));
  }
}

}  // namespace shardwise::testing::plan_modules
