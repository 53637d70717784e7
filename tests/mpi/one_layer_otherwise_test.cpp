// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// One layer of many that has styles of its own: a member beside the list, with a name of its own in plans. Its parameters
/// have the names that they had in the list.

#include <doctest/doctest.h>
#include <shardwise/shardwise.hpp>

#include "module_check.hpp"

namespace shardwise::testing {
namespace {

constexpr std::array own_modules{
    ModuleName{"blocks.*.up", ModuleKind::linear}, ModuleName{"blocks.*.down", ModuleKind::linear},
    ModuleName{"last", ModuleKind::composite}, ModuleName{"last.up", ModuleKind::linear},
    ModuleName{"last.down", ModuleKind::linear}};

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
  using Named = PlanFor<PlanType, own_modules>;

  constexpr explicit Blocks(const MeshType& mesh) requires WellFormed<Problem> : last(mesh) {
    blocks.make(2, mesh);
  }
  constexpr auto forward(const auto& x) const { return last(sequential(x, blocks)); }
  constexpr void visit(auto&& f) { f("blocks", blocks), f("blocks.2", last); }
  ModulesOf<Block<MeshType, PlanBelow<Named, "blocks.*">>> blocks;
  styled<Block<MeshType, PlanBelow<Named, "last">>, style_of<Named, "last">> last;
};
template <class PlanType>
struct MakeBlocks {
  constexpr auto operator()(const auto& mesh) const {
    return Blocks<std::remove_cvref_t<decltype(mesh)>, PlanType>(mesh);
  }
};
using LastPrepared =
    Plan<Use<"blocks.*.up", ColwiseParallel<tp>>, Use<"blocks.*.down", RowwiseParallel<tp>>,
         Use<"last", PrepareModuleInput<tp, Reduced>>, Use<"last.up", ColwiseParallel<tp, output<Replicate>>>,
         Use<"last.down", NoParallel>>;

TEST_CASE("the last block gathers what the first half of it gives") {
  constexpr Shape<3> shape{4, 6, 12};
  for (const auto& mesh : all_meshes<dp, tp>()) {
    const auto plan =
        check_module(mesh, MakeBlocks<LastPrepared>{}, Normal<Shard<0>, Replicate>{shape},
                     MakeBlocks<Plan<Use<"blocks.*.*", NoParallel>, Use<"last.*", NoParallel>>>{},
                     Normal<Replicate>{shape});
    const bool split = mesh.template size<tp>() > 1;
    CHECK(plan.count(Collective::all_reduce, Phase::forward) == (split ? 2 : 0));
    CHECK(plan.count(Collective::all_gather, Phase::forward) == (split ? 1 : 0));
  }
}

TEST_CASE("its parameters have the names of the list's last") {
  auto model = MakeBlocks<LastPrepared>()(Mesh<dp, tp>(world(), {any, 1}));
  const auto named = detail::named_parameters_of(model);
  REQUIRE(named.size() == 12);
  CHECK(named[4].name == "blocks.1.up.weight");
  CHECK(named[8].name == "blocks.2.up.weight");
}

}  // namespace
}  // namespace shardwise::testing
