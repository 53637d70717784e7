// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A plan that names layers by their numbers: these have other layouts, freeze or adapt what others do not, and the model
/// computes what it computes when all are alike. With ZeRO and recomputation.

#include <support/plans.hpp>

#include "by_number.hpp"

namespace shardwise::testing {
namespace {

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

}  // namespace
}  // namespace shardwise::testing
