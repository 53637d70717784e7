// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A Llama of which a part is frozen: the trained part gets the gradients and the step that it gets when all is trained,
/// the other stays as it is; nothing is computed, reduced or kept for it. With ZeRO, recomputation and pipelines.

#include <doctest/doctest.h>
#include <shardwise/checkpoint/contents.hpp>
#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/shardwise.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "gradients_in_pipeline.hpp"
#include "ids_on.hpp"
#include "module_check.hpp"

namespace shardwise::testing {
namespace {

using Grid = Mesh<dp, tp>;
using Colwise = ColwiseParallel<tp>;
using Rowwise = RowwiseParallel<tp>;
template <class Style>
using Fixed = Styles<Style, Frozen>;

/// Trained: values, the MLP's gate and its way down, the norm before attention, and the last.
using Part =
    Plan<Use<"tokens", Fixed<Rowwise>>,                                                               //
         Use<"layers.*.attention_norm", NoParallel>,                                                  //
         Use<"layers.*.attention.wq", Fixed<Colwise>>, Use<"layers.*.attention.wk", Fixed<Colwise>>,  //
         Use<"layers.*.attention.wv", Colwise>,                                                       //
         Use<"layers.*.attention.wo", Fixed<Rowwise>>,                                                //
         Use<"layers.*.mlp_norm", Frozen>,                                                            //
         Use<"layers.*.mlp.gate", Colwise>,                                                           //
         Use<"layers.*.mlp.up", Fixed<Colwise>>,                                                      //
         Use<"layers.*.mlp.down", Rowwise>,                                                           //
         Use<"norm", NoParallel>,                                                                     //
         Use<"head", Fixed<Colwise>>>;
using All = llm::LlamaTensorParallel<>;

constexpr llm::LlamaConfig config_of(bool tied) {
  return {
      .vocabulary = 23, .features = 16, .layers = 3, .heads = 4, .kv_heads = 4, .hidden = 10, .tied = tied};
}

struct Pass {
  bool tied = false, recompute = false;
  int micro_batches = 2;
};
/// Gradients of the model, not yet reduced but those that must be.
template <class Model>
constexpr void run(Model& model, const Pass& pass) {
  model.recompute_layers = pass.recompute;
  const auto& mesh = model.norm->weight.mesh();
  for (int i = 0; i < pass.micro_batches; ++i) {
    Tape tape;
    const auto loss = CrossEntropyLoss()(model(tape.constant(ids_on(mesh, i))), ids_on(mesh, i + 1));
    backward_and_reduce(loss, model, {.last = i + 1 == pass.micro_batches});
  }
}
template <class Module>
std::vector<std::string> trained_in(Module& model) {
  std::vector<std::string> names;
  for (const auto& [name, cell] : detail::named_parameters_of(model)) {
    if (!cell->layouts.frozen) names.push_back(name);
  }
  return names;
}

/// What a model holds first, after a step, and which parameters the step is to change.
struct Stepped {
  Outcome first, now;
  std::vector<std::string> trained;
};
template <class PlanType>
Stepped step(const Grid& mesh, const Pass& pass) {
  llm::Llama<Grid, PlanType, double> model(mesh, config_of(pass.tied));
  initialize(model, 5);
  Stepped stepped{values_of(model), {}, trained_in(model)};
  run(model, pass);
  AdamW().step(model);
  stepped.now = values_of(model);
  return stepped;
}

void check_step(const Stepped& part, const Stepped& all) {
  REQUIRE(part.first == all.first);
  CHECK(part.trained.size() == 3 * 4 + 1);
  for (const auto& each : part.now) {
    const auto& [name, numbers] = each;
    INFO(each.first);
    const bool is_trained = std::find(part.trained.begin(), part.trained.end(), name) != part.trained.end();
    if (is_trained) CHECK(error(numbers, all.now.at(name)) < 1e-14);
    CHECK((numbers == part.first.at(name)) == !is_trained);
  }
}

TEST_CASE("the trained part makes the step of a model that is trained whole") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    for (const bool tied : {false, true}) {
      for (const bool recompute : {false, true}) {
        INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), ", tied ", tied, ", recomputed ", recompute);
        const Pass pass{tied, recompute};
        const Stepped all = step<All>(mesh, pass);
        check_step(step<Part>(mesh, pass), all);
        check_step(step<PlanWith<Part, Zero<1, dp>>>(mesh, pass), all);
        check_step(step<PlanWith<Part, Zero<2, dp>>>(mesh, pass), all);
        check_step(step<PlanWith<Part, FullyShard<dp>>>(mesh, pass), all);
      }
    }
  }
}

// ---- What it costs ------------------------------------------------------------------------------------------------

template <class PlanType>
struct Step {
  template <class MeshType>
  constexpr void operator()(const MeshType& mesh) const {
    llm::Llama<MeshType, PlanType, double> model(mesh, config_of(false));
    initialize(model, 5);
    run(model, {.micro_batches = 1});
    clip_gradients(model, 1);
    AdamW().step(model);
  }
};

/// Bytes of the local blocks of a model's parameters: of those that are frozen, or of the others.
template <class Module>
std::int64_t local_bytes(Module& model, bool frozen) {
  std::int64_t bytes = 0;
  for (const auto* cell : detail::parameters_of(model)) {
    if (cell->layouts.frozen == frozen) bytes += cell->stored.local_elements() * cell->stored.element_bytes();
  }
  return bytes;
}

TEST_CASE(
    "gradients, their reduction and state are those of the trained part: planned, recorded and seen by MPI") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
    llm::Llama<Grid, Part, double> model(mesh, config_of(false));
    const std::int64_t trained = local_bytes(model, false), frozen = local_bytes(model, true);
    const auto plan = agreed_plan(mesh, Step<Part>());
    CHECK(plan.peak_bytes(MemoryUse::parameter) == trained);
    CHECK(plan.peak_bytes(MemoryUse::frozen) == frozen);
    CHECK(plan.peak_bytes(MemoryUse::gradient) == trained);
    CHECK(plan.peak_bytes(MemoryUse::optimizer_state) == 2 * trained);
    const AxisSet on_dp = 1;
    const auto& traffic = plan.record().traffic;
    std::int64_t reduced = 0;
    for (const auto& phase : traffic) reduced += phase[static_cast<int>(Collective::all_reduce)][on_dp].bytes;
    const std::int64_t numbers = reduced - trained;  // of the loss, and of the norm if it is along dp alone
    if (mesh.size<dp>() > 1) CHECK((0 < numbers && numbers <= 32));

    const auto whole_step = dry_plan(mesh, Step<All>());
    CHECK(plan.flops(Phase::forward) == whole_step.flops(Phase::forward));
    if (mesh.size<dp>() <= 4) CHECK(plan.flops(Phase::backward) < whole_step.flops(Phase::backward));
    agreed_plan(mesh, Step<PlanWith<Part, Zero<1, dp>>>());
    const auto sharded = agreed_plan(mesh, Step<PlanWith<Part, FullyShard<dp>>>());
    if (mesh.size<dp>() > 1) {
      CHECK(sharded.peak_bytes(MemoryUse::frozen) < frozen);
      CHECK(sharded.count(Collective::all_gather, Phase::forward) > 0);
    }
  }
}

TEST_CASE("a frozen layer with a bias: no arithmetic for its own gradients") {
  const auto flops = [](auto style) {
    return trace<Mesh<tp>>({1},
                           [&](const Mesh<tp>& mesh) {
                             Tape tape;
                             const auto x = tape.input(zeros<float, Replicate>(mesh, {5, 8}));
                             tape.backward(redistribute<Replicate>(
                                 sum(Linear<Mesh<tp>, decltype(style)>(mesh, 8, 6)(x))));
                           })
        .flops(Phase::backward);
  };
  CHECK(flops(NoParallel()) - flops(Frozen()) == 2 * 5 * 8 * 6 + 5 * 6);
}

TEST_CASE("frozen layers do not keep what they were called with") {
  const auto peak = [](auto style) {
    return trace<Mesh<tp>>(
               {1},
               [&](const Mesh<tp>& mesh) {
                 using Layer = Linear<Mesh<tp>, decltype(style)>;
                 std::vector<Layer> layers;
                 for (int i = 0; i < 9; ++i) layers.emplace_back(mesh, 8, 8);
                 Tape tape;
                 const auto y = sequential(tape.input(zeros<float, Replicate>(mesh, {5, 8})), layers);
                 tape.backward(redistribute<Replicate>(sum(y)));
               })
        .peak_activation_bytes();
  };
  constexpr std::int64_t each = 5 * 8 * 4;
  CHECK(peak(NoParallel()) > 9 * each);
  CHECK(peak(Frozen()) < 4 * each);
}

TEST_CASE("the norm is that of the trained gradients") {
  const Grid mesh(world(), {any, 1});
  llm::Llama<Grid, Part, double> part(mesh, config_of(false));
  llm::Llama<Grid, All, double> all(mesh, config_of(false));
  initialize(part, 5);
  initialize(all, 5);
  run(part, {});
  run(all, {});
  const auto trained = trained_in(part);
  const Outcome gradients = gradients_of(all);
  double squares = 0;
  for (const std::string& name : trained) {
    for (const double g : gradients.at(name)) squares += g * g;
  }
  CHECK(std::abs(clip_gradients(part, 1e9) - std::sqrt(squares)) < 1e-13);
}

// ---- Optimizers ---------------------------------------------------------------------------------------------------

TEST_CASE("an optimizer has groups and state of what is trained alone, and refuses to have nothing") {
  const Grid mesh(world(), {any, 1});
  llm::Llama<Grid, Part, double> model(mesh, config_of(false));
  CHECK(trained_parameter_count(model) == 3 * (16 + 16 * 16 + 2 * 16 * 10) + 16);
  CHECK(trained_parameter_count(model) < parameter_count(model));
  AdamW adamw;
  std::vector<std::string> seen, states;
  adamw.add_group(
      [&](const ParameterInfo& p) {
        seen.emplace_back(p.name);
        return p.rank < 2;
      },
      [](AdamWUpdate& settings) { settings.weight_decay = 0; });
  adamw.for_each_state(
      model, [&](const std::string& name, const auto&) { states.push_back(name); },
      [](const std::string&, std::int64_t&) {});
  CHECK(seen == trained_in(model));
  CHECK(states.size() == 2 * seen.size());

  AdamW grouped;
  grouped.add_group([](const ParameterInfo& p) { return p.name == "tokens.weight"; }, [](AdamWUpdate&) {});
  CHECK_THROWS_WITH_AS(
      grouped.step(model),
      "group 0 of an optimizer has no parameter: those that it chooses are in earlier groups, "
      "or frozen, or there are none",
      std::invalid_argument);

  llm::Llama<Grid, PlanWith<All, Frozen>, double> given(mesh, config_of(true));
  CHECK(trained_parameter_count(given) == 0);
  CHECK_THROWS_WITH_AS(AdamW().step(given), "an optimizer has nothing to train: all 29 parameters are frozen",
                       std::invalid_argument);
}

// ---- Pipelines ----------------------------------------------------------------------------------------------------

TEST_CASE("in pipelines, with a table that two stages have") {
  const int ranks = world().size();
  const Mesh<pp, dp, tp> job(world(), {ranks % 3 == 0 ? 3 : ranks % 2 == 0 ? 2 : 1, any, 1});
  for (const bool tied : {false, true}) {
    const Outcome right = gradients_in_pipeline<All>(job, config_of(tied));
    for (const auto& found : {gradients_in_pipeline<Part>(job, config_of(tied)),
                              gradients_in_pipeline<PlanWith<Part, FullyShard<dp>>>(job, config_of(tied))}) {
      for (const auto& each : found) {
        const auto& [name, numbers] = each;
        INFO(each.first);
        CHECK(error(numbers, right.at(name)) < 1e-13);
      }
    }
  }
}

}  // namespace
}  // namespace shardwise::testing
