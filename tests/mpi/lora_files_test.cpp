// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Adapters in files: in PEFT's form, and merged.

#include "lora_reference.hpp"
#include "outcome.hpp"
#include "scratch_folder.hpp"

namespace shardwise::testing::lora_files {
namespace {

template <class PlanType>
void check_merged(const LlamaMesh& mesh, const ScratchFolder& folder) {
  llm::Llama<LlamaMesh, PlanType, double> model(mesh, config());
  load(model);
  const auto ids = read_ids(mesh, "input_ids");
  const auto logits = [&] {
    Tape tape;
    return whole(model(tape.constant(ids)).value());
  };
  const auto right = logits();
  llm::save_llama(model, folder / "merged", {.type = StoredType::f64});
  CHECK(logits() == right);  // it stays as it is
  llm::Llama<LlamaMesh, TensorPlan, double> merged(mesh, config());
  llm::load_llama(merged, folder / "merged");
  CHECK(error(whole(merged(ids)), right) < 1e-14);
  llm::load_llama(merged, references / "grouped" / "model.safetensors");
  CHECK(error(whole(merged(ids)), right) > 1e-3);
}

TEST_CASE("the merged model computes the same") {
  const ScratchFolder folder;
  for (const LlamaMesh& mesh : llama_meshes(config())) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), " kvr ", mesh.size<kvr>());
    check_merged<PlanWith<Sequences, Zero<1, dp>>>(mesh, folder);
    check_merged<PlanWith<Tensors, FullyShard<dp>>>(mesh, folder);
  }
}

TEST_CASE("adapters in PEFT's form, from one mesh to another") {
  const ScratchFolder folder;
  const LlamaMesh mesh = llama_meshes(config()).back(), alone = llama_alone();
  llm::Llama<LlamaMesh, PlanWith<Tensors, FullyShard<dp>>, double> model(mesh, config());
  load(model);
  const Index written = llm::save_adapters(model, folder / "new", as_peft);
  CHECK(written > 0);
  const Json config_file = read_json(folder / "new" / "adapter_config.json"),
             theirs = read_json(references / "lora" / "adapter_config.json");
  for (const auto& each : theirs.items()) {
    const std::string& key = each.key();
    const Json& value = each.value();
    INFO(key);
    if (key == "reference") continue;
    if (key == "target_modules") {
      CHECK(config_file.at(key) == Json{"down_proj", "o_proj", "q_proj", "v_proj"});
    } else {
      CHECK(config_file.at(key) == value);
    }
  }
  const Weights ours(folder / "new" / "adapter_model.safetensors"),
      right(references / "lora" / "adapter_model.safetensors");
  CHECK(ours.files()[0].tensors().size() == right.files()[0].tensors().size());
  for (const StoredTensor& tensor : right.files()[0].tensors()) {
    INFO(tensor.name);
    REQUIRE(ours.contains(tensor.name));
    CHECK(ours.tensor(tensor.name).shape == tensor.shape);
  }
  llm::Llama<LlamaMesh, Tensors, double> again(alone, config());
  initialize(again, 1);
  llm::load_adapters(again, folder / "new", as_peft);
  const auto from = llm::detail::adapters_of(model).parameters,
             to = llm::detail::adapters_of(again).parameters;
  for (std::size_t i = 0; i < to.size(); ++i) {
    INFO(to[i].name);
    CHECK(from[i].name == to[i].name);
    CHECK(whole(from[i].cell->stored) == whole(to[i].cell->stored));
  }
}

template <class Colwise, class Rowwise>
struct TwoLayers : Module<TwoLayers<Colwise, Rowwise>> {
  Linear<LlamaMesh, Colwise> up;
  Linear<LlamaMesh, Rowwise> down;
  constexpr explicit TwoLayers(const LlamaMesh& mesh) : up(mesh, 6, 8), down(mesh, 8, 6) {}
  constexpr void visit(auto&& f) { f("up", up), f("down", down); }
};

TEST_CASE("a model of one's own takes the weights that were given, and its adapters stay") {
  const ScratchFolder folder;
  const LlamaMesh mesh = llama_meshes(config()).back();
  TwoLayers<ColwiseParallel<tp>, RowwiseParallel<tp>> given(mesh);
  initialize(given, 1);
  save_weights(given, folder / "given");
  TwoLayers<Lora<ColwiseParallel<tp>, 2>, Styles<RowwiseParallel<tp>, Frozen>> model(mesh);
  initialize(model, 2);
  const auto a = full_tensor(model.up.adapter.down.stored());
  CHECK(error_of([&] { load_weights(model, folder / "given"); }).find("\"up.lora_A.weight\"") !=
        std::string::npos);
  const auto is_adapter = [](std::string_view name) { return name.find(".lora_") != std::string_view::npos; };
  load_weights(model, folder / "given", {.may_be_missing = is_adapter});
  CHECK(full_tensor(model.up.weight.stored()) == full_tensor(given.up.weight.stored()));
  CHECK(full_tensor(model.down.bias.stored()) == full_tensor(given.down.bias.stored()));
  CHECK(full_tensor(model.up.adapter.down.stored()) == a);

  save_weights(model, folder / "with");  // adapters that are there are read
  initialize(model, 3);
  load_weights(model, folder / "with", {.may_be_missing = is_adapter});
  CHECK(full_tensor(model.up.adapter.down.stored()) == a);
  const auto others = [](std::string_view name) { return name == "down.weight"; };
  CHECK(error_of([&] { load_weights(model, folder / "given", {.may_be_missing = others}); }) != "");
}

TEST_CASE("a layer is named by its kind and its number, or by itself") {
  using Names = std::vector<std::string>;
  const auto check = [](const Names& adapted, const Names& others, const Names& modules,
                        const std::set<Index>& layers) {
    const auto targets = llm::detail::target_modules(adapted, others);
    CHECK(targets.modules == modules);
    CHECK(targets.layers == layers);
  };
  const Names ups{"model.layers.7.mlp.up", "model.layers.10.mlp.up"};
  check({"layers.0.up", "layers.1.up"}, {"layers.0.down", "layers.1.down"}, {"up"}, {});
  check(ups, {"model.layers.0.mlp.up", "model.layers.7.mlp.down"}, {"up"}, {7, 10});
  check(ups, {"model.layers.7.other.up"}, ups, {});              // PEFT would adapt it too
  check({"layers.0.up"}, {"layers.1.up"}, {"layers.0.up"}, {});  // PEFT finds no number in these
  CHECK(llm::detail::layer_number("model.layers.3.experts.12.up") == 12);
  CHECK(llm::detail::layer_number("model.layers.3") == -1);
  CHECK(llm::detail::layer_number("model.layers.3a.up") == -1);
}

TEST_CASE("adapters that do not fit are refused, on all ranks alike") {
  const ScratchFolder folder;
  const LlamaMesh mesh(world(), {any, 1, 1});
  llm::Llama<LlamaMesh, Tensors, double> model(mesh, config());
  load(model);
  const Json right = read_json(references / "lora" / "adapter_config.json");
  const auto problem = [&](auto change) {
    Json json = right;
    change(json);
    folder.file("adapter_config.json", json.dump());
    const std::string message = error_of([&] { llm::load_adapters(model, folder.path(), as_peft); });
    world().barrier();
    return message;
  };
  if (world().rank() == 0) {
    std::filesystem::copy_file(references / "lora" / "adapter_model.safetensors",
                               folder / "adapter_model.safetensors");
  }
  CHECK(problem([](Json&) {}) == "no error");
  CHECK(has(problem([](Json& json) { json["r"] = 8; }),
            "adapter_config.json: r: it is 8, expected 3, as the adapters of the model have"));
  CHECK(has(problem([](Json& json) { json["lora_alpha"] = 16; }),
            "adapter_config.json: lora_alpha: it is 16, expected 6, as the adapters of the model have"));
  CHECK(has(problem([](Json& json) { json["peft_type"] = "IA3"; }),
            "peft_type: it is \"IA3\", expected \"LORA\""));
  CHECK(has(problem([](Json& json) { json["use_dora"] = true; }), "use_dora: it is true, expected false"));
  CHECK(has(problem([](Json& json) { json["rank_pattern"] = {{"q_proj", 4}}; }), "rank_pattern: it is "));
  // What computes something else is refused by the name of its key and its value.
  for (const auto& each : std::vector<std::pair<const char*, Json>>{{"init_lora_weights", "pissa"},
                                                                    {"init_lora_weights", "pissa_niter_4"},
                                                                    {"init_lora_weights", "olora"},
                                                                    {"init_lora_weights", "loftq"},
                                                                    {"init_lora_weights", "corda"},
                                                                    {"use_qalora", true},
                                                                    {"alora_invocation_tokens", {1, 2}},
                                                                    {"layer_replication", {{0, 1}, {0, 2}}},
                                                                    {"trainable_token_indices", {3}},
                                                                    {"target_parameters", {"experts.up"}},
                                                                    {"modules_to_save", {"lm_head"}},
                                                                    {"megatron_config", {{"a", 1}}},
                                                                    {"use_rslora", true},
                                                                    {"lora_bias", true},
                                                                    {"use_what_comes_next", true},
                                                                    {"alpha_pattern", {{"q_proj", 1}}}}) {
    const std::string message = problem([&](Json& json) { json[each.first] = each.second; });
    INFO(message);
    CHECK(has(message, std::string("adapter_config.json: ") + each.first + ": it is " + each.second.dump() +
                           ", expected "));
  }
  CHECK(has(problem([](Json& json) { json["init_lora_weights"] = "pissa"; }),
            "path_initial_model_for_weight_conversion"));
  // As PEFT writes it, from its first release to its latest.
  CHECK(problem([](Json& json) {
          json.update({{"merge_weights", false}, {"enable_lora", nullptr}});
        }) == "no error");
  CHECK(problem([](Json& json) {
          json.update(Json::parse(R"({"alora_invocation_tokens":null,"alpha_pattern":{},"arrow_config":null,
            "auto_mapping":null,"corda_config":null,"ensure_weight_tying":false,"eva_config":null,
            "exclude_modules":null,"fan_in_fan_out":false,"init_lora_weights":true,"layer_replication":null,
            "layers_pattern":null,"layers_to_transform":null,"loftq_config":{},"lora_bias":false,"lora_dropout":0.05,
            "megatron_config":null,"megatron_core":"megatron.core","peft_version":"0.18.0","qalora_group_size":16,
            "rank_pattern":{},"revision":null,"target_parameters":null,"trainable_token_indices":null,
            "use_dora":false,"use_qalora":false,"use_rslora":false})"));
        }) == "no error");
  for (const char* start : {"gaussian", "orthogonal", "eva"})
    CHECK(problem([&](Json& json) { json["init_lora_weights"] = start; }) == "no error");

  const auto adapters_of_part = [&](llm::LlamaConfig part) {
    llm::Llama<LlamaMesh, Tensors, double> other(mesh, part);
    initialize(other, 1);
    return error_of([&] { llm::load_adapters(other, references / "lora", as_peft); });
  };
  llm::LlamaConfig fewer = config(), narrower = config(), more = config();
  --fewer.layers, ++more.layers, narrower.hidden = 30;
  CHECK(
      has(adapters_of_part(fewer),
          "tensor \"base_model.model.model.layers.1.mlp.down_proj.lora_A.weight\" is not a parameter of the "
          "module"));
  CHECK(has(adapters_of_part(more),
            "\"base_model.model.model.layers.2.self_attn.q_proj.lora_A.weight\": there is no such tensor"));
  const std::string of_narrower = adapters_of_part(narrower);
  INFO(of_narrower);
  CHECK(has(of_narrower, "expected the shape [3 x 30], found [3 x 36]"));

  llm::Llama<LlamaMesh, TensorPlan, double> plain(mesh, config());
  CHECK_THROWS_WITH_AS(llm::load_adapters(plain, references / "lora", as_peft),
                       "no layer of the module has an adapter", std::invalid_argument);
}

}  // namespace
}  // namespace shardwise::testing::lora_files
