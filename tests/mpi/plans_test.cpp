// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// One model, written once, under several plans: equal numbers, different communication.

#include <shardwise/nn/linear.hpp>
#include <shardwise/nn/rms_norm.hpp>
#include <shardwise/ops/activation.hpp>
#include <shardwise/ops/add.hpp>
#include <shardwise/parallel/plan_problem.hpp>

#include <array>
#include <vector>

#include "module_check.hpp"

namespace shardwise::testing::plans {
namespace sw = shardwise;
using sw::arguments;
using sw::ColwiseParallel;
using sw::dp;
using sw::ModuleKind;
using sw::ModuleName;
using sw::NoParallel;
using sw::output;
using sw::Plan;
using sw::PlanBelow;
using sw::PrepareModuleInputOutput;
using sw::Replicate;
using sw::results;
using sw::RowwiseParallel;
using sw::SequenceParallel;
using sw::Shard;
using sw::style_of;
using sw::tp;
using sw::Use;

namespace {

template <class MeshType, class PlanType>
struct Mlp {
  explicit Mlp(const MeshType& mesh) : up(mesh, 12, 9), down(mesh, 9, 12) {}
  template <class X>
  auto operator()(const X& x) const {
    return down(sw::silu(up(x)));
  }
  void visit(auto&& f) {
    f("up", up);
    f("down", down);
  }
  sw::Linear<MeshType, style_of<PlanType, "up">, double> up;
  sw::Linear<MeshType, style_of<PlanType, "down">, double> down;
};

template <class MeshType, class PlanType>
struct Block {
  explicit Block(const MeshType& mesh) : norm(mesh, 12), mlp(mesh) {}
  template <class X>
  auto operator()(const X& x) const {
    return sw::add(x, mlp(norm(x)));
  }
  void visit(auto&& f) {
    f("norm", norm);
    f("mlp", mlp);
  }
  sw::RMSNorm<MeshType, style_of<PlanType, "norm">, double> norm;
  sw::styled<Mlp<MeshType, PlanBelow<PlanType, "mlp">>, style_of<PlanType, "mlp">> mlp;
};

template <class MeshType, class PlanType>
struct Model {
  static constexpr std::array modules{
      ModuleName{"blocks.*.norm", ModuleKind::norm}, ModuleName{"blocks.*.mlp", ModuleKind::composite},
      ModuleName{"blocks.*.mlp.up", ModuleKind::linear}, ModuleName{"blocks.*.mlp.down", ModuleKind::linear}};
  using Problem = sw::plan_problem<MeshType, PlanType, modules>;

  explicit Model(const MeshType& mesh) requires sw::WellFormed<Problem> {
    blocks.reserve(2);
    for (int i = 0; i < 2; ++i) blocks.emplace_back(mesh);
  }
  template <class X>
  auto operator()(const X& x) const {
    return blocks[1](blocks[0](x));
  }
  void visit(auto&& f) { f("blocks", blocks); }

  std::vector<Block<MeshType, PlanBelow<PlanType, "blocks.*">>> blocks;
};
template <class PlanType>
struct MakeModel {
  template <class MeshType>
  auto operator()(const MeshType& mesh) const {
    return Model<MeshType, PlanType>(mesh);
  }
};

using Dense = Plan<Use<"blocks.*.norm", NoParallel>, Use<"blocks.*.mlp.*", NoParallel>>;
using Tensors = Plan<Use<"*.*.norm", NoParallel>, Use<"blocks.*.mlp.up", ColwiseParallel<tp>>,
                     Use<"blocks.*.mlp.down", RowwiseParallel<tp>>>;
using Sequences = Plan<Use<"blocks.*.norm", SequenceParallel<tp>>, Use<"*.*.*.up", ColwiseParallel<tp>>,
                       Use<"*.*.*.down", RowwiseParallel<tp, output<Shard<1>>>>>;
/// The layers are whole, and work on a part of the sequence.
using Prepared =
    Plan<Use<"blocks.*.norm", SequenceParallel<tp>>, Use<"blocks.*.mlp.*", NoParallel>,
         Use<"blocks.*.mlp", PrepareModuleInputOutput<tp, arguments<Replicate>, results<Shard<1>>>>>;
/// Every layer gathers what it computed.
using Gathered =
    Plan<Use<"blocks.*.norm", NoParallel>, Use<"blocks.*.mlp.*", ColwiseParallel<tp, output<Replicate>>>>;

template <class PlanType, class OnTp>
std::string trained(const auto& mesh) {
  constexpr sw::Shape<3> shape{5, 13, 12};
  return traffic(check_module(mesh, MakeModel<PlanType>{}, Normal<Shard<0>, OnTp>{shape}, MakeModel<Dense>{},
                              Normal<Replicate>{shape}));
}

}  // namespace

TEST_CASE("a model's numbers do not depend on its plan; its communication does") {
  for (const auto& mesh : all_meshes<dp, tp>()) {
    auto expect = [&](const char* text) { return std::string(mesh.template size<tp>() > 1 ? text : " / "); };
    CHECK(trained<Dense, Replicate>(mesh) == " / ");
    CHECK(trained<Tensors, Replicate>(mesh) == expect("all_reduce 2 / all_reduce 2"));
    CHECK(trained<Sequences, Shard<1>>(mesh) ==
          expect("all_gather 2, reduce_scatter 2 / all_gather 2, reduce_scatter 2"));
    CHECK(trained<Gathered, Replicate>(mesh) == expect("all_gather 4 / all_reduce 4"));
  }
}

TEST_CASE("a plan prepares a module that is made of others") {
  for (const auto& mesh : all_meshes<dp, tp>()) {
    auto expect = [&](const char* text) { return std::string(mesh.template size<tp>() > 1 ? text : " / "); };
    CHECK(trained<Prepared, Shard<1>>(mesh) == expect("all_gather 2 / all_gather 2"));
  }
}

}  // namespace shardwise::testing::plans
