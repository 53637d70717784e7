// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Plans that name modules of a user's own model by their numbers; and numbers that a model does not have.

#include "by_number.hpp"
#include "module_check.hpp"

namespace shardwise::testing {
namespace {

constexpr std::array own_modules{ModuleName{"blocks.*", ModuleKind::composite, true},
                                 ModuleName{"blocks.*.up", ModuleKind::linear},
                                 ModuleName{"blocks.*.down", ModuleKind::linear}};

template <class MeshType, class PlanType>
struct Block : Module<Block<MeshType, PlanType>> {
  constexpr explicit Block(const MeshType& mesh) : up(mesh, 12, 9), down(mesh, 9, 12) {}
  constexpr auto forward(const auto& x) const { return down(silu(up(x))); }
  constexpr void visit(auto&& f) { f("up", up), f("down", down); }
  Linear<MeshType, style_of<PlanType, "up">, double> up;
  Linear<MeshType, style_of<PlanType, "down">, double> down;
};
template <class MeshType, class PlanType>
struct Blocks : Module<Blocks<MeshType, PlanType>> {
  using Problem = plan_problem<MeshType, PlanType, own_modules>;
  template <class Below, class Style>
  using BlockWith = styled<Block<MeshType, Below>, Style>;

  constexpr explicit Blocks(const MeshType& mesh) requires WellFormed<Problem> { blocks.make(3, 3, mesh); }
  constexpr auto forward(const auto& x) const { return sequential(x, blocks); }
  constexpr void visit(auto&& f) { f("blocks", blocks); }
  ModulesOf<ByNumber<PlanFor<PlanType, own_modules>, "blocks", BlockWith>> blocks;
};
template <class PlanType>
struct MakeBlocks {
  constexpr auto operator()(const auto& mesh) const {
    return Blocks<std::remove_cvref_t<decltype(mesh)>, PlanType>(mesh);
  }
};
using Split = Plan<Use<"blocks.*.up", Colwise>, Use<"blocks.*.down", Rowwise>>;
using LastPrepared =
    PlanAnd<Split, Use<"blocks.2", PrepareModuleInput<tp, Reduced>>,
            Use<"blocks.2.up", ColwiseParallel<tp, output<Replicate>>>, Use<"blocks.2.down", NoParallel>>;

TEST_CASE("a model of one's own: one block gathers what the first half of it gives") {
  constexpr Shape<3> shape{4, 6, 12};
  for (const auto& mesh : all_meshes<dp, tp>()) {
    const auto plan =
        check_module(mesh, MakeBlocks<LastPrepared>{}, Normal<Shard<0>, Replicate>{shape},
                     MakeBlocks<Plan<Use<"blocks.*.*", NoParallel>>>{}, Normal<Replicate>{shape});
    const bool split = mesh.template size<tp>() > 1;
    CHECK(plan.count(Collective::all_reduce, Phase::forward) == (split ? 2 : 0));
    CHECK(plan.count(Collective::all_gather, Phase::forward) == (split ? 1 : 0));
    MakeBlocks<LastPrepared>()(mesh).blocks[2].with([](auto& block) {
      CHECK(block.up.weight.shape() == Shape<2>{9, 12});
    });
  }
}

TEST_CASE("a number that the model does not have is refused where the model is made") {
  using Model =
      Llama<Grid, PlanAnd<Alike, Use<"layers.1.mlp.up", Colwise>, Use<"layers.12.mlp.up", Colwise>>>;
  const Grid mesh(world(), {any, 1});
  CHECK_THROWS_WITH_AS(
      Model(mesh, config),
      "the plan names \"layers.12.mlp.up\", but the model has 4 layers, of which the first is number 0",
      std::invalid_argument);
  // So does a part of the model that has none of its layers.
  CHECK_THROWS_AS(Model(mesh, config, LlamaPart{0, 0, true, false}), std::invalid_argument);
  auto longer = config;
  longer.layers = 13;
  CHECK_NOTHROW(Model(mesh, longer));
}

}  // namespace
}  // namespace shardwise::testing
