// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Adapters: a Llama against PyTorch (tests/reference/lora.py), on meshes with data and tensor parallelism and ZeRO; what a
/// step communicates and keeps; adapters in PEFT's form; the merged model.

#include <shardwise/checkpoint/load.hpp>
#include <shardwise/checkpoint/save.hpp>
#include <shardwise/models/adapter_files.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <support/plans.hpp>

#include "llama_reference.hpp"
#include "outcome.hpp"
#include "scratch_folder.hpp"

namespace shardwise::testing {
namespace {

/// Queries, values, the way out of attention and that of the MLP are adapted, all else is as given.
template <class KeyValue, class Norm, class Colwise, class Rowwise, int Rank = 3, int Alpha = 6>
using Adapted = PlanWith<
    Plan<Use<"tokens", Rowwise>,                //
         Use<"layers.*.attention_norm", Norm>,  //
         Use<"layers.*.attention.wq", Lora<Colwise, Rank, Alpha>>, Use<"layers.*.attention.wk", KeyValue>,
         Use<"layers.*.attention.wv", Lora<KeyValue, Rank, Alpha>>,
         Use<"layers.*.attention.wo", Lora<Rowwise, Rank, Alpha>>, Use<"layers.*.mlp_norm", Norm>,  //
         Use<"layers.*.mlp.gate", Colwise>, Use<"layers.*.mlp.up", Colwise>,                        //
         Use<"layers.*.mlp.down", Lora<Rowwise, Rank, Alpha>>, Use<"norm", Norm>,                   //
         Use<"head", Colwise>>,
    Frozen>;
using Tensors = Adapted<KeyValueParallel<Split>, NoParallel, ColwiseParallel<Split>, RowwiseParallel<Split>>;
using Sequences = Adapted<KeyValueParallel<Split>, SequenceParallel<Split>, ColwiseParallel<Split>,
                          RowwiseParallel<Split, output<Shard<1>>>>;

const auto references = std::filesystem::path(__FILE__).parent_path().parent_path() / "reference";
const AdapterOptions as_peft{.name_of = hugging_face_name, .base_model = "grouped"};

LlamaConfig config() { return read_llama_config(references / "grouped" / "config.json"); }

template <class Model>
void load(Model& model) {
  load_llama(model, references / "grouped" / "model.safetensors");
  load_adapters(model, references / "lora", as_peft);
}
template <class MeshType>
auto read_ids(const MeshType& mesh, const char* name) {
  return read_tensor<std::int64_t, 2, Shard<0>, Replicate, Replicate>(
      mesh, references / "lora" / "f64.safetensors", name);
}
std::string peft_name(std::string_view path) { return "base_model.model." + hugging_face_name(path); }

// ---- Against PyTorch ----------------------------------------------------------------------------------------------

template <class PlanType>
void check_against_pytorch(const LlamaMesh& mesh, bool recompute) {
  const Weights file(references / "lora" / "f64.safetensors");
  constexpr double tolerance = 1e-12;
  const auto check = [&](const detail::AnyTensor& found, const std::string& name) {
    INFO(name);
    CHECK(relative_error(found, read_as(file, name, found)) <= tolerance);
  };
  const auto ids = read_ids(mesh, "input_ids"), targets = read_ids(mesh, "targets");
  const Json settings = read_json(references / "lora" / "adapter_config.json").at("reference");
  std::vector<double> losses(settings.at("steps").get<std::size_t>());
  const auto steps = static_cast<Index>(losses.size());
  file.read_block("losses", View<double, 1>{losses.data(), {steps}, {0}, {steps}});

  Llama<LlamaMesh, PlanType, double> model(mesh, config());
  model.recompute_layers = recompute;
  load(model);
  const auto given = detail::given_parameters_of(model);
  std::vector<Numbers> first;
  for (const auto& parameter : given) first.push_back(whole(parameter.cell->stored));
  AdamW adamw({.rate = settings.at("lr").get<double>(), .weight_decay = settings.at("wd").get<double>()});
  for (std::size_t step = 0; step < losses.size(); ++step) {
    Tape tape;
    auto logits = model(tape.constant(ids));
    if (step == 0) check(detail::AnyTensor(logits.value()), "logits");
    auto loss = CrossEntropyLoss()(std::move(logits), targets);
    CHECK(std::abs(item(loss) - losses[step]) <= tolerance * losses[step]);
    backward_and_reduce(loss, model);
    for (const auto& each : detail::named_parameters_of(model)) {
      if (step > 0 || each.cell->layouts.frozen) continue;
      check(each.cell->finished_gradient(), "grad." + peft_name(each.name));
    }
    adamw.step(model);
  }
  for (const auto& each : detail::named_parameters_of(model)) {  // waits for what an optimizer still gathers
    if (!each.cell->layouts.frozen) check(each.cell->stored, "final." + peft_name(each.name));
  }
  for (std::size_t i = 0; i < given.size(); ++i) CHECK(whole(given[i].cell->stored) == first[i]);
}

TEST_CASE("logits, losses, gradients and steps are PyTorch's") {
  for (const LlamaMesh& mesh : llama_meshes(config())) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), " kvr ", mesh.size<kvr>());
    check_against_pytorch<Tensors>(mesh, false);
    check_against_pytorch<PlanWith<Sequences, Zero<1, dp>>>(mesh, true);
    check_against_pytorch<PlanWith<Sequences, Zero<2, dp>>>(mesh, false);
    check_against_pytorch<PlanWith<Tensors, FullyShard<dp>>>(mesh, true);
  }
}

// ---- What it costs ------------------------------------------------------------------------------------------------

using Grid = Mesh<dp, tp>;
using OnGrid = LlamaAdapted<LlamaTensorParallel<>, 3, 6>;

// A second adapter is not overlooked where the first is within a style of its own.
using Sharded = Styles<Lora<ColwiseParallel<tp>, 8>, Zero<1, dp>>;
static_assert(WellFormed<detail::style_problem<Grid, ModuleKind::linear, Sharded>>);
static_assert(IllFormed<detail::style_problem<Grid, ModuleKind::linear, Lora<Sharded, 4>>>);

template <class PlanType>
struct Step {
  template <class MeshType>
  constexpr void operator()(const MeshType& mesh) const {
    Llama<MeshType, PlanType, double> model(
        mesh, {.vocabulary = 24, .features = 16, .layers = 3, .heads = 4, .kv_heads = 4, .hidden = 12});
    initialize(model, 5);
    Tensor<std::int32_t, 2, MeshType, Shard<0>, Replicate> ids(mesh, {4, 6});
    if constexpr (!MeshType::dry) std::fill_n(ids.writable().data, ids.view().elements(), 1);
    AdamW adamw;
    Tape tape;
    backward_and_reduce(CrossEntropyLoss()(model(tape.constant(ids)), ids), model);
    adamw.step(model);
  }
};

template <class PlanType>
std::int64_t traffic(const PlanType& plan, Collective kind, AxisSet axes, std::initializer_list<Phase> phases,
                     bool calls = false) {
  std::int64_t sum = 0;
  for (const Phase phase : phases) {
    const Traffic& cell = plan.record().traffic[static_cast<int>(phase)][static_cast<int>(kind)][axes];
    sum += calls ? cell.calls : cell.bytes;
  }
  return sum;
}

TEST_CASE("adapters share the collectives of their layers; what is reduced and kept is theirs alone") {
  using Phase::forward, Phase::backward, Phase::optimizer;
  constexpr AxisSet on_dp = 1, on_tp = 2;
  for (const Grid& mesh : data_by_tensor_meshes()) {
    const std::int64_t data = mesh.size<dp>(), tensor = mesh.size<tp>();
    INFO("dp ", data, " tp ", tensor);
    const auto plan = agreed_plan(mesh, Step<PlanWith<OnGrid, Zero<1, dp>>>());
    const auto whole = dry_plan(mesh, Step<PlanWith<LlamaTensorParallel<>, Zero<1, dp>>>());

    // In the layers: the same, but that nobody wants the gradient of what the first layer takes.
    for (const bool calls : {true, false}) {
      CHECK(traffic(plan, Collective::all_reduce, on_tp, {forward}, calls) ==
            traffic(whole, Collective::all_reduce, on_tp, {forward}, calls));
    }
    if (tensor > 1) {
      CHECK(plan.template count<tp>(Collective::all_reduce, backward) ==
            whole.template count<tp>(Collective::all_reduce, backward) - 1);
    }
    // The adapters, counted by hand: of 3 layers, 7 with A [3, in] and B [out, 3], of which one is cut along tp.
    Llama<Grid, PlanWith<OnGrid, Zero<1, dp>>, double> model(
        mesh, {.vocabulary = 24, .features = 16, .layers = 3, .heads = 4, .kv_heads = 4, .hidden = 12});
    CHECK(trained_parameter_count(model) == 3 * 3 * (4 * (16 + 16) + 3 * (16 + 12)));
    std::int64_t trained = 0, whole_on_tp = 0, state = 0;
    for (const auto& each : detail::adapters_of(model).parameters) {
      const auto& stored = each.cell->stored;
      const std::int64_t bytes = stored.local_elements() * 8;
      const std::int64_t own = stored.relaid(each.cell->layouts.finished).local_elements() * 8;
      trained += bytes;
      state += 2 * own;
      if (tensor > 1 && !stored.layout[1].is_shard()) whole_on_tp += own;
    }
    CHECK(plan.peak_bytes(MemoryUse::parameter) == trained);
    CHECK(plan.peak_bytes(MemoryUse::optimizer_state) == state);
    CHECK(plan.peak_bytes(MemoryUse::gradient) <= 2 * trained);
    CHECK(traffic(plan, Collective::reduce_scatter, on_dp, {forward, backward, optimizer}) ==
          (data > 1 ? trained : 0));
    CHECK(traffic(plan, Collective::all_gather, on_dp, {forward, backward, optimizer}) ==
          (data > 1 ? trained : 0));
    CHECK(traffic(plan, Collective::all_reduce, on_tp, {optimizer}) == whole_on_tp);
  }
}

// ---- Files --------------------------------------------------------------------------------------------------------

template <class PlanType>
void check_merged(const LlamaMesh& mesh, const ScratchFolder& folder) {
  Llama<LlamaMesh, PlanType, double> model(mesh, config());
  load(model);
  const auto ids = read_ids(mesh, "input_ids");
  const auto logits = [&] {
    Tape tape;
    return whole(model(tape.constant(ids)).value());
  };
  const auto right = logits();
  save_llama(model, folder / "merged", {.type = StoredType::f64});
  CHECK(logits() == right);  // it stays as it is
  Llama<LlamaMesh, TensorPlan, double> merged(mesh, config());
  load_llama(merged, folder / "merged");
  CHECK(error(whole(merged(ids)), right) < 1e-14);
  load_llama(merged, references / "grouped" / "model.safetensors");
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
  Llama<LlamaMesh, PlanWith<Tensors, FullyShard<dp>>, double> model(mesh, config());
  load(model);
  const Index written = save_adapters(model, folder / "new", as_peft);
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
  Llama<LlamaMesh, Tensors, double> again(alone, config());
  initialize(again, 1);
  load_adapters(again, folder / "new", as_peft);
  const auto from = detail::adapters_of(model).parameters, to = detail::adapters_of(again).parameters;
  for (std::size_t i = 0; i < to.size(); ++i) {
    INFO(to[i].name);
    CHECK(from[i].name == to[i].name);
    CHECK(whole(from[i].cell->stored) == whole(to[i].cell->stored));
  }
}

TEST_CASE("a layer is named by itself where others of its kind have no adapter") {
  CHECK(detail::target_modules({"layers.0.up", "layers.1.up"}, {"layers.0.down", "layers.1.down"}) ==
        std::vector<std::string>{"up"});
  CHECK(detail::target_modules({"layers.0.up"}, {"layers.1.up"}) == std::vector<std::string>{"layers.0.up"});
}

TEST_CASE("adapters that do not fit are refused, on all ranks alike") {
  const ScratchFolder folder;
  const LlamaMesh mesh(world(), {any, 1, 1});
  Llama<LlamaMesh, Tensors, double> model(mesh, config());
  load(model);
  const Json right = read_json(references / "lora" / "adapter_config.json");
  const auto problem = [&](auto change) {
    Json json = right;
    change(json);
    folder.file("adapter_config.json", json.dump());
    const std::string message = error_of([&] { load_adapters(model, folder.path(), as_peft); });
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

  const auto adapters_of_part = [&](LlamaConfig part) {
    Llama<LlamaMesh, Tensors, double> other(mesh, part);
    initialize(other, 1);
    return error_of([&] { load_adapters(other, references / "lora", as_peft); });
  };
  LlamaConfig fewer = config(), narrower = config(), more = config();
  --fewer.layers, ++more.layers, narrower.hidden = 30;
  CHECK(has(adapters_of_part(fewer),
            "tensor \"base_model.model.model.layers.1.mlp.down_proj.lora_A.weight\" is no parameter of the "
            "module"));
  CHECK(has(adapters_of_part(more),
            "\"base_model.model.model.layers.2.self_attn.q_proj.lora_A.weight\": there is no such tensor"));
  const std::string of_narrower = adapters_of_part(narrower);
  INFO(of_narrower);
  CHECK(has(of_narrower, "expected the shape [3 x 30], found [3 x 36]"));

  Llama<LlamaMesh, TensorPlan, double> plain(mesh, config());
  CHECK_THROWS_WITH_AS(load_adapters(plain, references / "lora", as_peft),
                       "no layer of the module has an adapter", std::invalid_argument);
}

TEST_CASE("a checkpoint has adapters, their state, and what is given; another mesh goes on from it") {
  const ScratchFolder folder;
  const auto step = [](auto& model, AdamW& adamw) {
    const auto& mesh = model.norm->weight.mesh();
    const auto ids = read_ids(mesh, "input_ids"), targets = read_ids(mesh, "targets");
    Tape tape;
    backward_and_reduce(CrossEntropyLoss()(model(tape.constant(ids)), targets), model);
    adamw.step(model);
  };
  const auto run = [](auto& model, AdamW& adamw) {
    CheckpointContents contents(model.norm->weight.mesh());
    contents.add("model", model);
    contents.add("optimizer", adamw, model);
    return contents;
  };
  Llama<LlamaMesh, PlanWith<Sequences, Zero<1, dp>>, double> model(llama_meshes(config()).back(), config());
  Llama<LlamaMesh, PlanWith<Tensors, FullyShard<dp>>, double> again(llama_meshes(config()).front(), config());
  AdamW adamw, adamw_again;
  load(model);
  step(model, adamw);
  const auto contents = run(model, adamw);
  CHECK(contents.numbers().size() == 1 + detail::adapters_of(model).parameters.size());
  save_checkpoint(folder / "run", contents);
  initialize(again, 1);
  load_checkpoint(folder / "run", run(again, adamw_again));
  step(model, adamw);
  step(again, adamw_again);
  const auto right = detail::named_parameters_of(model), found = detail::named_parameters_of(again);
  for (std::size_t i = 0; i < right.size(); ++i) {
    INFO(right[i].name);
    CHECK(error(whole(found[i].cell->stored), whole(right[i].cell->stored)) < 1e-12);
  }
}

// ---- Layers -------------------------------------------------------------------------------------------------------

TEST_CASE("a layer with a bias: what is pending is reduced once, and the merged layer gives the same") {
  using Line = Mesh<tp>;
  const Line mesh(world(), {any});
  const auto check = [&](auto style, int all_reduces) {
    Linear<Line, Lora<decltype(style), 2, 5>, double> layer(mesh, 9, 7);
    Linear<Line, decltype(style), double> merged(mesh, 9, 7);
    initialize(layer, 1);
    layer.adapter.up.assign(redistribute_to<typename decltype(layer.adapter.up)::Stored>(
        randn<double, Replicate>(mesh, {7, 2}, 3)));
    merged.weight.assign(layer.adapter.merged_with(layer.weight));
    merged.bias.assign(layer.bias.stored());
    const auto x = randn<double, Replicate>(mesh, {3, 4, 9}, 2);
    mpi_counter::reset();
    const auto y = layer(x);
    if (mpi_counter::counting() && world().size() > 1)
      CHECK(mpi_counter::counts().all_reduce.calls == all_reduces);
    const auto right = whole(merged(x));
    CHECK(error(whole(y), right) < 1e-15 * 20);
    initialize(merged, 1);
    CHECK(error(whole(merged(x)), right) > 1e-2);
  };
  check(ColwiseParallel<tp>(), 0);
  check(RowwiseParallel<tp>(), 1);
  check(CopyParallel<tp>(), 0);
  check(NoParallel(), 0);
}

}  // namespace
}  // namespace shardwise::testing
