// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Plans in which slices of a Llama's layers have other styles: the first are frozen, the last have adapters, some have
/// sharded sequences. Held against models whose layers are all alike, in which what should not be
/// trained is set back after each step.

#include <doctest/doctest.h>
#include <shardwise/llm/models/adapter_files.hpp>
#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/shardwise.hpp>

#include "gradients_in_pipeline.hpp"
#include "ids_on.hpp"
#include "module_check.hpp"
#include "scratch_folder.hpp"

namespace shardwise::testing {
namespace {

using Grid = Mesh<dp, tp>;
using All = llm::LlamaTensorParallel<>;
using FirstFrozen = PlanWith<All, Frozen, "tokens", "layers.[:n]">;
using Adapted = llm::LlamaAdapted<All, 3, 6>;
using LastAdapted = llm::LlamaAdapted<All, 3, 6, "layers.[-2:]">;
/// The first two layers work on parts of the sequence.
using Sequences = PlanAnd<All, Use<"layers.[:2].*_norm", SequenceParallel<tp>>,
                          Use<"layers.[:2].attention.wo", RowwiseParallel<tp, output<Shard<1>>>>,
                          Use<"layers.[:2].mlp.down", RowwiseParallel<tp, output<Shard<1>>>>>;

constexpr llm::LlamaConfig config_of(std::optional<Index> n = {}) {
  return {.vocabulary = 23, .features = 16, .layers = 4, .heads = 4, .kv_heads = 4, .hidden = 10, .n = n};
}

/// The losses of some steps, and the values then. After each step, those that `is_fixed` names are as at first.
struct Run {
  std::vector<double> losses;
  Outcome first, last;
};
template <class Model, class Fixed>
Run train(Model& model, const Fixed& is_fixed, bool recompute = false) {
  Run run{{}, values_of(model), {}};
  model.recompute_layers = recompute;
  const auto& mesh = model.norm->weight.mesh();
  std::vector<std::vector<double>> given;
  for_each_named_parameter(model, [&](std::string_view, auto& parameter) {
    const auto block = parameter.stored().view();
    given.emplace_back(block.data, block.data + block.elements());
  });
  AdamW adamw({.rate = 1e-2, .may_be_unused = true});
  for (int i = 0; i < 3; ++i) {
    Tape tape;
    const auto loss = CrossEntropyLoss()(model(tape.constant(ids_on(mesh, i))), ids_on(mesh, i + 1));
    backward_and_reduce(loss, model);
    run.losses.push_back(item(loss.value()));
    adamw.step(model);
    std::size_t next = 0;
    for_each_named_parameter(model, [&](std::string_view name, auto& parameter) {
      const auto& values = given[next++];
      if (is_fixed(name)) std::copy(values.begin(), values.end(), parameter.writable().data);
    });
  }
  run.last = values_of(model);
  return run;
}
constexpr auto none = [](std::string_view) { return false; };
/// Of `FirstFrozen`.
bool is_frozen(std::string_view name, Index n) {
  return name == "tokens.weight" || (name.starts_with("layers.") && name[7] - '0' < n);
}

/// `found` may lack parameters that have no effect in `right`.
void check_same(const Run& found, const Run& right, bool all_names = true) {
  for (std::size_t i = 0; i < right.losses.size(); ++i)
    CHECK(found.losses[i] == doctest::Approx(right.losses[i]).epsilon(1e-13));
  CHECK((found.last.size() == right.last.size()) == all_names);
  for (const auto& each : found.last) {
    INFO(each.first);
    REQUIRE(right.last.contains(each.first));
    CHECK(error(each.second, right.last.at(each.first)) < 1e-12);
  }
}

template <class PlanType>
Run run_of(const Grid& mesh, const llm::LlamaConfig& config, const auto& is_fixed, bool recompute = false) {
  llm::Llama<Grid, PlanType, double> model(mesh, config);
  initialize(model, 5);
  return train(model, is_fixed, recompute);
}

// ---- Values --------------------------------------------------------------------------------------------------------

TEST_CASE("the first n layers are frozen: the steps of a model in which they are set back") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    for (const Index n : {0, 2, 4}) {
      INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), " n ", n);
      const Run right =
          run_of<All>(mesh, config_of(), [&](std::string_view name) { return is_frozen(name, n); });
      check_same(run_of<FirstFrozen>(mesh, config_of(n), none, n == 2), right);
      if (n == 2) check_same(run_of<PlanWith<FirstFrozen, FullyShard<dp>>>(mesh, config_of(n), none), right);
      CHECK(right.losses[2] != right.losses[0]);
    }
  }
}

TEST_CASE("the last layers have adapters: the steps of a model in which the others' are set back") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
    const auto right = run_of<Adapted>(mesh, config_of(), [](std::string_view name) {
      return name.starts_with("layers.") && name[7] < '2';
    });
    const Run found = run_of<LastAdapted>(mesh, config_of(), none);
    check_same(found, right, false);
    CHECK(found.last.contains("layers.2.mlp.up.lora_A.weight"));
    CHECK_FALSE(found.last.contains("layers.1.mlp.up.lora_A.weight"));
  }
}

TEST_CASE("between layers of different layouts, the result is redistributed") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
    check_same(run_of<Sequences>(mesh, config_of(), none), run_of<All>(mesh, config_of(), none));
  }
  // Two layers of each kind; the first slices what the tokens give, the third gathers it.
  const auto plan = trace<Grid>({1, 2}, [](const Grid& mesh) {
    const llm::Llama<Grid, Sequences, double> model(mesh, config_of());
    model.end(model.middle(model.begin(ids_on(mesh, 0))));
  });
  CHECK(plan.count(Collective::all_reduce) == 1 + 4);
  CHECK(plan.count(Collective::reduce_scatter) == 4);
  CHECK(plan.count(Collective::all_gather) == 4 + 1);
}

TEST_CASE("layers before the first trained one keep nothing, and have no backward pass") {
  const auto flops = [](auto plan, const llm::LlamaConfig& config) {
    return trace<Grid>({1, 1}, [&](const Grid& mesh) {
      llm::Llama<Grid, decltype(plan), double> model(mesh, config);
      Tape tape;
      tape.backward(CrossEntropyLoss()(model(tape.constant(ids_on(mesh, 0))), ids_on(mesh, 1)));
    });
  };
  const auto all = flops(All(), config_of()), two = flops(FirstFrozen(), config_of(2)),
             none_trained = flops(FirstFrozen(), config_of(4));
  CHECK(two.flops(Phase::forward) == all.flops(Phase::forward));
  CHECK(two.peak_activation_bytes() < all.peak_activation_bytes());
  const auto of_layers = [&](const auto& plan) {
    return plan.flops(Phase::backward) - none_trained.flops(Phase::backward);
  };
  CHECK(of_layers(two) > 0);
  CHECK(2 * of_layers(two) < of_layers(all));  // whose first layers also train the tokens
}

// ---- Pipelines, files ----------------------------------------------------------------------------------------------

TEST_CASE("in pipelines, slices are those of the whole model") {
  const int ranks = world().size();
  const Mesh<pp, dp, tp> job(world(), {ranks % 3 == 0 ? 3 : ranks % 2 == 0 ? 2 : 1, any, 1});
  const Outcome right = gradients_in_pipeline<All>(job, config_of());
  for (const Index n : {1, 3}) {
    INFO("n ", n);
    const Outcome found = gradients_in_pipeline<FirstFrozen>(job, config_of(n));
    for (const auto& [name, gradient] : right) {
      INFO(name);
      REQUIRE(found.contains(name) != is_frozen(name, n));
      if (!is_frozen(name, n)) CHECK(error(found.at(name), gradient) < 1e-13);
    }
  }
}

TEST_CASE("adapters of the last layers in PEFT's form") {
  const ScratchFolder folder;
  const llm::AdapterOptions in_model{
      .name_of = [](std::string_view name) { return "model." + std::string(name); }};
  const Grid mesh(world(), {any, 1});
  llm::Llama<Grid, LastAdapted, double> model(mesh, config_of());
  initialize(model, 5);
  llm::save_adapters(model, folder / "mine", in_model);
  const Json written = read_json(folder / "mine" / "adapter_config.json");
  CHECK(written.at("layers_to_transform") == Json{2, 3});
  CHECK(written.at("target_modules") == Json{"down", "gate", "up", "wk", "wo", "wq", "wv"});
  const Outcome right = values_of(model);
  initialize(model, 6);
  llm::load_adapters(model, folder / "mine", in_model);
  const Outcome found = values_of(model);
  CHECK(found.at("layers.3.mlp.up.lora_A.weight") == right.at("layers.3.mlp.up.lora_A.weight"));
  CHECK(found.at("layers.3.mlp.up.weight") != right.at("layers.3.mlp.up.weight"));
}

}  // namespace
}  // namespace shardwise::testing
