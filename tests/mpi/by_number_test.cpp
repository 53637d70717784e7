// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A plan that names layers by their numbers: these have other layouts, freeze or adapt what others do not, and the model
/// computes what it computes when all are alike. With ZeRO, recomputation, pipelines, and models of a user's own.

#include <doctest/doctest.h>
#include <shardwise/checkpoint/contents.hpp>
#include <shardwise/checkpoint/load.hpp>
#include <shardwise/checkpoint/save.hpp>
#include <shardwise/models/llama/files.hpp>
#include <shardwise/pipeline/pipeline.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <shardwise/shardwise.hpp>

#include <string>
#include <vector>

#include "module_check.hpp"
#include "scratch_folder.hpp"

namespace shardwise::testing {
namespace {

using Grid = Mesh<dp, tp>;
using Colwise = ColwiseParallel<tp>;
using Rowwise = RowwiseParallel<tp>;
using Alike = LlamaTensorParallel<>;
/// The MLP of layer 1 is whole on every rank, and the projection of layer 2 to queries is not trained.
using Some = PlanWith<
    PlanAnd<Alike, Use<"layers.1.mlp.*", NoParallel>, Use<"layers.2.attention.wq", Styles<Colwise, Frozen>>>,
    Zero<2, dp>>;

constexpr LlamaConfig config{
    .vocabulary = 23, .features = 16, .layers = 4, .heads = 4, .kv_heads = 4, .hidden = 10};

template <class MeshType>
constexpr auto ids_on(const MeshType& mesh, int number) {
  Tensor<std::int32_t, 2, MeshType, Shard<0>, Replicate> ids(mesh, {4, 6});
  if constexpr (!MeshType::dry) {
    const auto block = ids.writable();
    for (Index i = 0; i < block.elements(); ++i)
      block.data[i] = static_cast<std::int32_t>((i + block.begin[0] + 5 * number) % 23);
  }
  return ids;
}

/// A step of two passes.
template <class Model>
constexpr void train(Model& model, double largest_norm = 1) {
  const auto& mesh = model.norm->weight.mesh();
  for (int i = 0; i < 2; ++i) {
    Tape tape;
    const auto loss = model(tape.constant(ids_on(mesh, i)), ids_on(mesh, i + 1), LinearCrossEntropyLoss());
    backward_and_reduce(loss, model, {.last = i == 1});
  }
  clip_gradients(model, largest_norm);
  AdamW().step(model);
}
constexpr double not_clipped = 1e9;
template <class PlanType>
struct Step {
  template <class MeshType>
  constexpr void operator()(const MeshType& mesh) const {
    Llama<MeshType, PlanType, double> model(mesh, config);
    initialize(model, 5);
    train(model);
  }
};
template <class PlanType>
Outcome trained(const Grid& mesh, bool recompute = false) {
  Llama<Grid, PlanType, double> model(mesh, config);
  initialize(model, 5);
  model.recompute_layers = recompute;
  train(model);
  return values_of(model);
}

void check_equal(const Outcome& found, const Outcome& right) {
  REQUIRE(found.size() == right.size());
  for (const auto& each : found) {
    INFO(each.first);
    const auto other = right.find(each.first);
    REQUIRE(other != right.end());
    CHECK(error(each.second, other->second) < 1e-13);
  }
}

/// Of two layers the MLP, or the projections of attention, are whole on every rank.
using Whole = PlanAnd<Alike, Use<"layers.1.mlp.*", NoParallel>, Use<"layers.3.attention.w*", NoParallel>>;

TEST_CASE("layers that lie otherwise compute the same step") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
    const auto right = trained<Alike>(mesh);
    for (const bool recompute : {false, true}) {
      check_equal(trained<Whole>(mesh, recompute), right);
      check_equal(trained<PlanWith<Whole, FullyShard<dp>>>(mesh, recompute), right);
    }
  }
}

TEST_CASE("a layer that is whole has no collectives along tp, and takes its own memory") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    const auto alike = dry_plan(mesh, Step<Alike>());
    const auto some = agreed_plan(mesh, Step<Whole>());
    const int split = mesh.size<tp>() > 1 ? 1 : 0;
    for (const Phase phase : {Phase::forward, Phase::backward}) {
      CHECK(some.template count<tp>(Collective::all_reduce, phase) ==
            alike.template count<tp>(Collective::all_reduce, phase) -
                split * 2 * 2);  // two modules, two passes
    }
    CHECK((some.parameter_bytes() > alike.parameter_bytes()) == (split == 1));
  }
}

// ---- What is trained of one layer ---------------------------------------------------------------------------------

TEST_CASE("one layer is frozen in part: the others get the gradients that they get anyway") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    Llama<Grid, Some, double> some(mesh, config);
    Llama<Grid, Alike, double> alike(mesh, config);
    initialize(some, 5);
    initialize(alike, 5);
    const auto first = values_of(some);
    CHECK(first == values_of(alike));
    const auto step = [&](auto& model) {
      train(model, not_clipped);
      return values_of(model);
    };
    const auto now = step(some), right = step(alike);
    for (const auto& each : now) {
      INFO(each.first);
      const bool frozen = each.first == "layers.2.attention.wq.weight";
      CHECK((each.second == first.at(each.first)) == frozen);
      if (!frozen) CHECK(error(each.second, right.at(each.first)) < 1e-13);
    }
  }
}

/// The first layer gives what has no gradient, as its input; the last two do not.
using LastTrained =
    Plan<Use<"tokens", Styles<Rowwise, Frozen>>, Use<"norm", Frozen>, Use<"head", Styles<Colwise, Frozen>>,
         Use<"layers.*.attention_norm", Frozen>, Use<"layers.*.mlp_norm", Frozen>,
         Use<"layers.*.attention.wq", Styles<Colwise, Frozen>>,
         Use<"layers.*.attention.wk", Styles<Colwise, Frozen>>,
         Use<"layers.*.attention.wv", Styles<Colwise, Frozen>>,
         Use<"layers.*.attention.wo", Styles<Rowwise, Frozen>>,
         Use<"layers.*.mlp.gate", Styles<Colwise, Frozen>>, Use<"layers.*.mlp.up", Styles<Colwise, Frozen>>,
         Use<"layers.*.mlp.down", Styles<Rowwise, Frozen>>, Use<"layers.3.mlp.up", Colwise>,
         Use<"layers.2.attention.wq", Lora<Colwise, 2>>>;

TEST_CASE("all but a layer, and an adapter of another, is frozen") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    for (const bool recompute : {false, true}) {
      Llama<Grid, LastTrained, double> last(mesh, config);
      Llama<Grid, Alike, double> alike(mesh, config);
      initialize(last, 5);
      initialize(alike, 5);
      last.recompute_layers = recompute;
      CHECK(trained_parameter_count(last) == 16 * 10 + 2 * (16 + 16));
      const auto first = values_of(last);
      const auto step = [&](auto& model) {
        train(model, not_clipped);
        return values_of(model);
      };
      const auto now = step(last), right = step(alike);
      for (const auto& each : now) {
        INFO(each.first);
        const bool trained =
            each.first == "layers.3.mlp.up.weight" || each.first == "layers.2.attention.wq.lora_B.weight";
        if (each.first.ends_with("lora_A.weight")) continue;  // whose gradient is 0 at first
        CHECK((each.second != first.at(each.first)) == trained);
        if (each.first == "layers.3.mlp.up.weight") CHECK(error(each.second, right.at(each.first)) < 1e-13);
      }
    }
  }
}

// ---- Files, pipelines, text ---------------------------------------------------------------------------------------

TEST_CASE("a checkpoint goes from layers that are alike to some that are not, and back") {
  const ScratchFolder folder;
  const Grid mesh(world(), {any, 1});
  Llama<Grid, Alike, double> alike(mesh, config);
  Llama<Grid, Whole, double> some(Grid(world(), {1, any}), config);
  initialize(alike, 5);
  initialize(some, 6);
  save_llama(alike, folder.path() / "model");
  load_llama(some, folder.path() / "model");
  CHECK(values_of(some) == values_of(alike));
}

using Job = Mesh<pp, dp, tp>;
template <class PlanType>
Outcome in_pipeline(const Job& job) {
  using Part = Llama<Grid, PlanType, double>;
  const Pipeline pipeline(job, one_forward_one_backward(job.size<pp>(), 2));
  auto stages = pipeline.stages([&](int stage, const auto& mesh) {
    return Part(mesh, config, LlamaPart::of(config, pipeline.schedule().rank_of_stage, stage));
  });
  initialize(stages, 5);
  const auto batch = [&](int i) { return ids_on(pipeline.mesh(), i); };
  pipeline.run(
      stages, {4, 6, config.features},
      [&](Tape& tape, Part& part, int i) { return part.begin(tape.constant(batch(i))); },
      [](Part& part, const auto& x, int) { return part.middle(x); },
      [&](Part& part, const auto& x, int i) { return part.end(x, batch(i + 1), LinearCrossEntropyLoss()); });
  pipeline.clip_gradients(stages, 1);
  AdamW().step(stages);
  return values_of(stages);
}

TEST_CASE("a pipeline: a part of the layers has their numbers in the whole") {
  const int ranks = world().size();
  const Job job(world(), {ranks % 3 == 0 ? 3 : ranks % 2 == 0 ? 2 : 1, 1, any});
  const auto right = in_pipeline<Alike>(job);
  check_equal(in_pipeline<PlanWith<Whole, FullyShard<dp>>>(job), right);
}

TEST_CASE("text is the same with a cache and without, if heads lie alike") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    Llama<Grid, Some, double> some(mesh, config);
    Llama<Grid, Alike, double> alike(mesh, config);
    initialize(some, 5);
    initialize(alike, 5);
    const auto ids = ids_on(mesh, 0);
    auto cache = some.make_cache(ids, 6);
    auto other = alike.make_cache(ids, 6);
    CHECK(error(whole(some.next(ids, cache)), whole(alike.next(ids, other))) < 1e-13);
  }
}

// ---- What is refused ----------------------------------------------------------------------------------------------

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

// ---- A model of one's own -----------------------------------------------------------------------------------------

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

}  // namespace
}  // namespace shardwise::testing
