// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A Llama with experts: what it computes beside PyTorch, its published configurations, and its files.

#include <doctest/doctest.h>
#include <shardwise/llm/models/adapter_files.hpp>
#include <shardwise/llm/models/llama/consolidate.hpp>
#include <shardwise/llm/models/llama/import_weights.hpp>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/train/check_gradients.hpp>
#include <shardwise/train/clip.hpp>

#include "llama_reference.hpp"
#include "scratch_folder.hpp"

namespace shardwise::testing::llama_experts {
namespace {

using All = AxisList<dp, tp, kvr>;
using Tensor = llm::LlamaExpertParallel<TensorPlan, All>;
using Sequence = llm::LlamaExpertParallel<SequencePlan, Split>;
using ByCounts = llm::LlamaExpertParallel<SequencePlan, All, by_counts>;
using Sharded = PlanWith<Tensor, Zero<1, dp>>;

const char* const names[] = {"mixtral", "qwen3_moe", "deepseek_moe", "deepseek_v3"};

std::filesystem::path folder_of(const std::string& name) {
  return std::filesystem::path(__FILE__).parent_path().parent_path() / "reference" / name;
}

template <class T>
void check(double tolerance, double tolerance_after_steps) {
  for (const char* name : names) {
    check_reference<Tensor, T>(name, tolerance, tolerance_after_steps);
    check_reference<Sequence, T>(name, tolerance, tolerance_after_steps);
    check_reference<Sharded, T>(name, tolerance, tolerance_after_steps, false);
  }
}

TEST_CASE("experts in float compute what PyTorch computes") { check<float>(3e-6, 1e-4); }
TEST_CASE("experts in double compute what PyTorch computes") { check<double>(7.3e-15, 1e-13); }
TEST_CASE("experts whose tokens are exchanged by counts compute the same") {
  for (const char* name : names) check_reference<ByCounts, double>(name, 7.3e-15, 1e-13);
  check_reference<ByCounts, double>("qwen3_moe", 7.3e-15, 1e-13, false);
}

/// Without keys that do not matter here.
const char* const mixtral =
    R"({"architectures": ["MixtralForCausalLM"], "attention_dropout": 0.0, "hidden_act": "silu",
  "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 32768,
  "model_type": "mixtral", "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "num_local_experts": 8, "output_router_logits": false, "rms_norm_eps": 1e-05,
  "rope_theta": 1000000.0, "router_aux_loss_coef": 0.02, "sliding_window": null, "tie_word_embeddings": false,
  "vocab_size": 32000})";
const char* const qwen3_moe = R"({"architectures": ["Qwen3MoeForCausalLM"], "attention_bias": false,
  "decoder_sparse_step": 1, "head_dim": 128, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
  "intermediate_size": 6144, "max_position_embeddings": 40960, "max_window_layers": 48, "mlp_only_layers": [],
  "model_type": "qwen3_moe", "moe_intermediate_size": 768, "norm_topk_prob": true, "num_attention_heads": 32,
  "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4,
  "output_router_logits": false, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000.0,
  "router_aux_loss_coef": 0.001, "sliding_window": null, "tie_word_embeddings": false, "use_sliding_window": false,
  "vocab_size": 151936})";
const char* const deepseek = R"({"architectures": ["DeepseekForCausalLM"], "attention_bias": false,
  "attention_dropout": 0.0, "aux_loss_alpha": 0.001, "first_k_dense_replace": 1, "hidden_act": "silu",
  "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 10944, "max_position_embeddings": 4096,
  "model_type": "deepseek", "moe_intermediate_size": 1408, "moe_layer_freq": 1, "n_routed_experts": 64,
  "n_shared_experts": 2, "norm_topk_prob": false, "num_attention_heads": 16, "num_experts_per_tok": 6,
  "num_hidden_layers": 28, "num_key_value_heads": 16, "rms_norm_eps": 1e-06, "rope_scaling": null,
  "rope_theta": 10000, "scoring_func": "softmax", "seq_aux": true, "tie_word_embeddings": false,
  "vocab_size": 102400})";

const char* const deepseek_v2_lite = R"({"architectures": ["DeepseekV2ForCausalLM"], "attention_bias": false,
  "attention_dropout": 0.0, "aux_loss_alpha": 0.001, "first_k_dense_replace": 1, "hidden_act": "silu",
  "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 10944, "kv_lora_rank": 512,
  "max_position_embeddings": 163840, "model_type": "deepseek_v2", "moe_intermediate_size": 1408, "moe_layer_freq": 1,
  "n_group": 1, "n_routed_experts": 64, "n_shared_experts": 2, "norm_topk_prob": false, "num_attention_heads": 16,
  "num_experts_per_tok": 6, "num_hidden_layers": 27, "num_key_value_heads": 16, "pretraining_tp": 1,
  "q_lora_rank": null, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
  "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707,
    "original_max_position_embeddings": 4096, "type": "yarn"},
  "rope_theta": 10000, "routed_scaling_factor": 1.0, "scoring_func": "softmax", "seq_aux": true,
  "tie_word_embeddings": false, "topk_group": 1, "topk_method": "greedy", "v_head_dim": 128, "vocab_size": 102400})";
const char* const deepseek_v3 = R"({"architectures": ["DeepseekV3ForCausalLM"], "attention_bias": false,
  "attention_dropout": 0.0, "ep_size": 1, "first_k_dense_replace": 3, "hidden_act": "silu", "hidden_size": 7168,
  "initializer_range": 0.02, "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 163840,
  "model_type": "deepseek_v3", "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8,
  "n_routed_experts": 256, "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 128,
  "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128, "num_nextn_predict_layers": 1,
  "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
  "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 4096, "type": "yarn"},
  "rope_theta": 10000, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "tie_word_embeddings": false,
  "topk_group": 4, "topk_method": "noaux_tc", "v_head_dim": 128, "vocab_size": 129280})";

Json published(const char* text) { return parse_json(text, "published"); }
llm::LlamaConfig read(const Json& json) { return llm::parse_llama_config(json); }
std::string problem(const Json& json) {
  return error_of([&] { read(json); });
}

TEST_CASE("published models with experts have the published numbers of parameters") {
  CHECK(read(published(mixtral)).parameters() == 46'702'792'704);
  CHECK(read(published(qwen3_moe)).parameters() == 30'532'122'624);
  CHECK(read(published(deepseek)).parameters() == 16'375'728'128);
  CHECK(read(published(deepseek_v2_lite)).parameters() == 15'706'484'224);
  CHECK(read(published(deepseek_v3)).parameters() == 671'026'419'200);
  CHECK(read(published(mixtral)).active_parameters() == 12'879'925'248);
  CHECK(read(published(qwen3_moe)).active_parameters() == 3'353'032'704);
  const llm::LlamaConfig config = read(published(deepseek));
  CHECK_FALSE(config.for_layer(0).experts.has_value());
  CHECK(config.for_layer(1).experts->shared_hidden == 2816);
  CHECK_FALSE(config.experts->routing.normalized);
}

TEST_CASE("a configuration with experts comes back as it was, with its other keys") {
  for (const char* text : {mixtral, qwen3_moe, deepseek, deepseek_v2_lite, deepseek_v3}) {
    CAPTURE(text);
    const Json given = published(text);
    const llm::LlamaConfig config = read(given);
    const Json written = parse_json(llm::llama_config_text(config, "bfloat16", {.rest = given}), "written");
    for (const auto& each : given.items()) {
      CAPTURE(each.key());
      if (each.key() != "rope_scaling")
        CHECK(written.at(each.key()) == each.value());  // its type has another name
    }
    const Json alone = parse_json(llm::llama_config_text(config, "float32"), "alone");
    CHECK(llm::llama_config_text(read(alone), "float32") == llm::llama_config_text(config, "float32"));
    CHECK(alone.at("model_type") == given.at("model_type"));
  }
}

TEST_CASE("experts that are not computed are refused by the name of their key") {
  Json json = published(qwen3_moe);
  json["decoder_sparse_step"] = 2;
  CHECK(problem(json) == "decoder_sparse_step: it is 2, expected 1");
  json = published(qwen3_moe);
  json["mlp_only_layers"] = {0};
  CHECK(problem(json) == "mlp_only_layers: it is [0], expected []");
  json = published(mixtral);
  json["router_jitter_noise"] = 0.1;
  CHECK(problem(json) == "router_jitter_noise: it is 0.1, expected 0.0");
  json["router_jitter_noise"] = 0.0;
  json["num_experts_per_tok"] = 9;
  CHECK_THROWS_WITH(read(json), "LlamaConfig: experts.routing.k is 9, which must be 8 or less");
  json = published(deepseek);
  json["scoring_func"] = "sigmoid";
  CHECK(problem(json) == "scoring_func: it is \"sigmoid\", expected \"softmax\"");

  for (const char* text : {deepseek, deepseek_v2_lite, deepseek_v3}) {
    json = published(text);
    json.erase("n_routed_experts");  // dense in DeepSeek's own code, not in transformers
    CHECK(problem(json) == "n_routed_experts: it is missing, expected an integer, 1 or more");
    json["n_routed_experts"] = nullptr;
    CHECK(problem(json) == "n_routed_experts: it is missing, expected an integer, 1 or more");
  }

  json = published(deepseek_v2_lite);
  json["topk_method"] = "group_limited_greedy";
  CHECK(problem(json) == "topk_method: it is \"group_limited_greedy\", expected \"greedy\"");
  json = published(deepseek_v2_lite);
  json["norm_topk_prob"] = true;
  json["routed_scaling_factor"] = 16.0;
  CHECK(problem(json) ==
        "norm_topk_prob: it is true, expected false, because routed_scaling_factor is not 1");
  json = published(deepseek_v3);
  json["quantization_config"] = {{"quant_method", "fp8"}};
  CHECK(has(problem(json), "quantization_config: "));

  llm::LlamaConfig mixed = read(published(mixtral));
  mixed.experts->shared_hidden = 100;
  CHECK_THROWS_AS(llm::llama_config_text(mixed, "float32"), const std::invalid_argument&);
}

TEST_CASE("a plan must name the experts of a model that has them") {
  const llm::LlamaConfig config = llm::read_llama_config(folder_of("deepseek_moe") / "config.json");
  std::string message;
  try {
    llm::Llama<LlamaMesh, TensorPlan> model(llama_alone(), config);
  } catch (const std::invalid_argument& error) {
    message = error.what();
  }
  CHECK(message ==
        "Llama: the model has experts, and the plan does not name \"layers.*.experts\": see "
        "LlamaExpertParallel");
}

/// The bytes of all tensors of a folder.
std::map<std::string, std::string> bytes_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> bytes;
  const Weights weights(folder);
  for (const SafetensorsFile& file : weights.files()) {
    const std::string text = read_text(file.path());
    for (const StoredTensor& tensor : file.tensors()) {
      bytes[std::string(tensor.name)] =
          text.substr(static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(tensor.bytes));
    }
  }
  return bytes;
}

TEST_CASE("files with experts come back byte for byte, from every mesh and through a checkpoint") {
  const ScratchFolder scratch;
  for (const std::string name : names) {
    CAPTURE(name);
    const auto given = folder_of(name);
    const llm::LlamaConfig config = llm::read_llama_config(given / "config.json");
    for (const LlamaMesh& mesh : llama_meshes(config)) {
      CAPTURE(mesh.size<dp>());
      CAPTURE(mesh.size<tp>());
      llm::Llama<LlamaMesh, Tensor> model(mesh, config);
      llm::load_llama(model, given);
      llm::save_llama(model, scratch.path() / name, {}, llm::read_llama_tokens(given));
      world().barrier();
      CHECK(bytes_of(scratch.path() / name) == bytes_of(given / "model.safetensors"));
      world().barrier();
    }
    if (world().rank() == 0) {
      const auto checkpoint = scratch.path() / (name + "-checkpoint");
      llm::import_weights(scratch.path() / name, checkpoint);
      llm::consolidate_checkpoint(checkpoint, scratch.path() / (name + "-again"));
      CHECK(bytes_of(scratch.path() / (name + "-again")) == bytes_of(given / "model.safetensors"));
    }
    world().barrier();
  }
}

TEST_CASE("tensors of experts that are missing or of another shape are named") {
  const ScratchFolder scratch;
  llm::LlamaConfig config = llm::read_llama_config(folder_of("mixtral") / "config.json");
  const auto refused = [&](const llm::LlamaConfig& other) {
    llm::Llama<LlamaMesh, Tensor> model(llama_alone(), other);
    return error_of([&] { llm::load_llama(model, folder_of("mixtral") / "model.safetensors"); });
  };
  config.experts->experts = 6;
  CHECK(has(
      refused(config),
      "tensor \"model.layers.0.block_sparse_moe.experts.5.w1.weight\": there is no such tensor (parameter "
      "layers.0.experts.gate_up)"));
  config.experts->experts = 4;
  CHECK(has(refused(config),
            "tensor \"model.layers.0.block_sparse_moe.experts.4.w1.weight\" is not a parameter"));
  config.experts->experts = 5;
  config.experts->hidden = config.hidden = 35;
  CHECK(has(refused(config), "expected the shape [35 x 24], found [36 x 24]"));
}

TEST_CASE("numbers that choose experts and are not finite are refused by file, tensor, element and rank") {
  const ScratchFolder scratch;
  const auto refused = [&](const std::string& name, const std::string& tensor, std::size_t element,
                           float value) {
    const auto given = folder_of(name);
    const llm::LlamaConfig config = llm::read_llama_config(given / "config.json");
    std::string bytes = bytes_of_file(given / "model.safetensors");
    const Weights weights(given);
    REQUIRE(weights.tensor(tensor).type == StoredType::f32);
    std::memcpy(bytes.data() + weights.tensor(tensor).offset + 4 * element, &value, 4);
    world().barrier();
    scratch.file("config.json", bytes_of_file(given / "config.json"));
    const auto path = scratch.file("model.safetensors", bytes);
    std::string message;
    for (const LlamaMesh& mesh : llama_meshes(config)) {
      llm::Llama<LlamaMesh, Tensor> model(mesh, config);
      message = error_of([&] { llm::load_llama(model, scratch.path()); });
      const std::string place = "load_llama: " + path.string() + ": tensor \"" + tensor + "\": element ";
      REQUIRE(has(message, place));
      message.erase(0, place.size());
      world().barrier();
    }
    const auto import = [&] { llm::import_weights(scratch.path(), scratch / "imported"); };
    if (world().rank() == 0) CHECK(has(error_of(import), ": tensor \"" + tensor + "\": element "));
    world().barrier();
    return message;
  };
  const auto infinity = std::numeric_limits<float>::infinity();
  const std::string rank1 = " (rank " + std::to_string(1 % world().size()) + ")",
                    rank2 = " (rank " + std::to_string(2 % world().size()) + ")";
  const std::string bias = "model.layers.1.mlp.gate.e_score_correction_bias";
  CHECK(refused("deepseek_v3", bias, 7, std::nanf("")) == "7 is nan, expected a finite number" + rank1);
  CHECK(refused("deepseek_v3", bias, 0, -infinity) == "0 is -inf, expected a finite number" + rank1);
  CHECK(refused("deepseek_v3", "model.layers.2.mlp.gate.weight", 30, infinity) ==
        "30 is inf, expected a finite number" + rank2);
  CHECK(refused("mixtral", "model.layers.1.block_sparse_moe.gate.weight", 119, infinity) ==
        "119 is inf, expected a finite number" + rank1);
}

TEST_CASE("layers of DeepSeek V3 that predict further tokens are left out") {
  const llm::LlamaConfig config = read(published(deepseek_v3));
  CHECK(llm::detail::is_surplus(config, "model.layers.61.mlp.experts.0.up_proj.weight"));
  CHECK_FALSE(llm::detail::is_surplus(config, "model.layers.60.mlp.experts.0.up_proj.weight"));
}

TEST_CASE("the names in braces, as in a shell") {
  using Names = std::vector<std::string>;
  CHECK(expanded_names("a.weight") == Names{"a.weight"});
  CHECK(expanded_names("e.{0..1}.{w1,w3}.x") == Names{"e.0.w1.x", "e.0.w3.x", "e.1.w1.x", "e.1.w3.x"});
  CHECK(expanded_names("{9..11}") == Names{"9", "10", "11"});
  CHECK(detail::shape_of_blocks({4, 2, 3, 5}, 8) == std::vector<Index>{3, 5});
  CHECK_THROWS_AS(expanded_names("a.{}"), const std::invalid_argument&);
  CHECK_THROWS_AS(expanded_names("a.{0..3x}"), const std::invalid_argument&);
  CHECK_THROWS_AS(detail::shape_of_blocks({4, 2, 3}, 6), const std::invalid_argument&);
}

/// The gradients of so many equal micro-batches together, with the balance loss times `balance`.
template <class PlanType>
std::vector<double> gradients(const LlamaMesh& mesh, int micro_batches, bool recomputed = false,
                              double balance = 1) {
  const auto folder = folder_of("qwen3_moe");
  llm::LlamaConfig config = llm::read_llama_config(folder / "config.json");
  config.micro_batches = micro_batches;
  config.balance *= balance;
  llm::Llama<LlamaMesh, PlanType, double> model(mesh, config);
  llm::load_llama(model, folder / "model.safetensors");
  model.recompute_layers = recomputed;
  const auto ids = read_tensor<std::int64_t, 2, Shard<0>, Replicate, Replicate>(
      mesh, folder / "f64.safetensors", "input_ids");
  for (int micro = 0; micro < micro_batches; ++micro) {
    Tape tape;
    const auto loss = model(tape.constant(ids), ids, LinearCrossEntropyLoss());
    const auto part = scale(loss, 1.0 / micro_batches);
    if (recomputed) {
      tape.backward(part);
    } else {
      tape.backward_inputs(part);
      tape.backward_parameters();
    }
  }
  reduce_gradients(model);
  std::vector<double> all;
  for (detail::ParameterState* cell : detail::parameters_of(model)) {
    const Numbers numbers = whole(cell->finished_gradient());
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  return all;
}
double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return a.size() == b.size() ? most : 1e9;
}

TEST_CASE("a balance loss counts once: in micro-batches, in recomputed layers, on every mesh") {
  const auto alone = gradients<Sequence>(llama_alone(), 1);
  CHECK(difference(alone, gradients<Sequence>(llama_alone(), 1, false, 0)) > 1e-3);
  for (const LlamaMesh& mesh : llama_meshes(llm::read_llama_config(folder_of("qwen3_moe") / "config.json"))) {
    CAPTURE(mesh.size<dp>());
    CAPTURE(mesh.size<tp>());
    CHECK(difference(alone, gradients<Sequence>(mesh, 1)) < 1e-14);
    CHECK(difference(alone, gradients<Sequence>(mesh, 3, true)) < 1e-14);
    CHECK(difference(alone, gradients<Tensor>(mesh, 2)) < 1e-14);
  }
}

/// The biases of DeepSeek V3's layers after three steps of two micro-batches, whose ids are rotated from step to step.
struct Moved {
  std::vector<Numbers> biases;
  double norm = 0;  ///< of the last step
};
template <class PlanType, class T = double>
Moved moved(const LlamaMesh& mesh, double rate, int micro_batches = 1, bool recomputed = false) {
  const auto folder = folder_of("deepseek_v3");
  llm::LlamaConfig config = llm::read_llama_config(folder / "config.json");
  llm::Llama<LlamaMesh, PlanType, T> model(mesh, config);
  llm::load_llama(model, folder / "model.safetensors");
  model.recompute_layers = recomputed;
  AdamW adamw({.rate = 1e-2, .weight_decay = 0.1});
  adamw.add_group([](const ParameterInfo& p) { return p.rank == 1; }, [](AdamWUpdate& a) { a.beta1 = 0.5; });
  adamw.set_bias_rate(rate);
  Moved result;
  for (int step = 0; step < 3; ++step) {
    for (int micro = 0; micro < micro_batches; ++micro) {
      std::vector<std::int64_t> all;  // 4 sequences of 7 tokens, or half of them
      for (int i = 0; i < 28 / micro_batches; ++i)
        all.push_back(((i + micro * (28 / micro_batches)) * (5 + step) + step) % 31);
      const auto ids = distribute<Shard<0>, Replicate, Replicate>(mesh, Shape<2>{4 / micro_batches, 7}, all);
      Tape tape;
      const auto loss = scale(model(tape.constant(ids), ids, LinearCrossEntropyLoss()), 1.0 / micro_batches);
      backward_and_reduce(loss, model, {.last = micro + 1 == micro_batches});
    }
    result.norm = clip_gradients(model, 0.1);
    adamw.step(model);
  }
  for (const auto& [name, cell] : detail::named_parameters_of(model)) {
    if (!name.ends_with("experts.bias")) continue;
    CHECK(cell->stored.type == (std::is_same_v<T, double> ? DataType::f64 : DataType::f32));
    result.biases.push_back(whole(cell->stored));
  }
  return result;
}

TEST_CASE("biases move by the load of all tokens, on every mesh") {
  const llm::LlamaConfig config = llm::read_llama_config(folder_of("deepseek_v3") / "config.json");
  const Moved still = moved<Tensor>(llama_alone(), 0), alone = moved<Tensor>(llama_alone(), 0.125);
  CHECK(alone.biases.size() == 2);
  double most = 0;
  for (std::size_t layer = 0; layer < 2; ++layer) {
    for (std::size_t e = 0; e < 8; ++e) {
      const double by = (alone.biases[layer][e] - still.biases[layer][e]) / 0.125;
      CHECK(by == doctest::Approx(std::round(by)));
      most = std::max(most, std::abs(by));
    }
  }
  CHECK(most > 0);
  const auto same = [&](const Moved& other) {
    CHECK(other.biases == alone.biases);
    CHECK(other.norm == doctest::Approx(alone.norm).epsilon(1e-12));
  };
  for (const LlamaMesh& mesh : llama_meshes(config)) {
    CAPTURE(mesh.size<dp>());
    CAPTURE(mesh.size<tp>());
    same(moved<Tensor>(mesh, 0.125));
    same(moved<Sequence>(mesh, 0.125, 2));
    same(moved<ByCounts>(mesh, 0.125, 2, true));
    same(moved<Sharded>(mesh, 0.125, 1, true));
    same(moved<PlanWith<llm::LlamaExpertParallel<TensorPlan, kvr>, Zero<1, dp>>>(mesh, 0.125));
    CHECK(moved<Sequence>(mesh, 0).biases == still.biases);
  }
}

TEST_CASE("in a model in bfloat16 biases are float, also in its files") {
  const ScratchFolder scratch;
  const auto given = folder_of("deepseek_v3");
  const LlamaMesh mesh = llama_meshes(llm::read_llama_config(given / "config.json")).back();
  llm::Llama<LlamaMesh, Tensor, Eigen::bfloat16> model(mesh, llm::read_llama_config(given / "config.json"));
  llm::load_llama(model, given);
  llm::save_llama(model, scratch.path() / "bf16");
  world().barrier();
  const std::string bias = "model.layers.1.mlp.gate.e_score_correction_bias";
  CHECK(bytes_of(scratch.path() / "bf16").at(bias) == bytes_of(given / "model.safetensors").at(bias));
  CHECK(bytes_of(scratch.path() / "bf16").at("model.norm.weight").size() == 2 * 24);
  if (world().rank() == 0) {  // through a checkpoint of which all else is in bfloat16
    llm::import_weights(given, scratch.path() / "imported", {.type = StoredType::bf16});
    llm::consolidate_checkpoint(scratch.path() / "imported", scratch.path() / "again",
                                {.type = StoredType::bf16});
    CHECK(bytes_of(scratch.path() / "again").at(bias) == bytes_of(given / "model.safetensors").at(bias));
    CHECK(bytes_of(scratch.path() / "again") == bytes_of(scratch.path() / "bf16"));
  }
  const Moved by_load = moved<Tensor, Eigen::bfloat16>(mesh, 1. / 1024),
              still = moved<Tensor, Eigen::bfloat16>(mesh, 0);
  double most = 0;
  for (std::size_t e = 0; e < 8; ++e) {
    const double by = (by_load.biases[1][e] - still.biases[1][e]) * 1024;
    most = std::max(most, std::abs(by));
    CHECK(by == doctest::Approx(std::round(by)).epsilon(1e-3));
    CHECK(std::abs(by) <= 3);
  }
  CHECK(most > 0.5);
  world().barrier();
}

TEST_CASE("adapters of a model with experts, of which nothing else is trained") {
  const ScratchFolder scratch;
  for (const char* name : {"qwen3_moe", "deepseek_v3"}) {
    CAPTURE(name);
    const auto given = folder_of(name);
    llm::LlamaConfig config = llm::read_llama_config(given / "config.json");
    config.balance = 0;  // no part of the loss that the model returns
    const LlamaMesh mesh = llama_meshes(config).back();
    llm::Llama<LlamaMesh, llm::LlamaAdapted<Tensor, 2, 4>, double> model(mesh, config);
    initialize(model, 3);
    llm::load_llama(model, given / "model.safetensors");
    const auto ids = read_tensor<std::int64_t, 2, Shard<0>, Replicate, Replicate>(
        mesh, given / "f64.safetensors", "input_ids");
    const auto loss_of = [&](const auto& any, Tape& tape) {
      return any(tape.constant(ids), ids, LinearCrossEntropyLoss());
    };
    AdamW adamw({.rate = 0.1});
    adamw.set_bias_rate(1);
    Tape tape;
    tape.backward(loss_of(model, tape));
    adamw.step(model);
    check_gradients(model, [&](Tape& other) { return loss_of(model, other); });
    for (const auto& parameter : detail::named_parameters_of(model)) {
      CAPTURE(parameter.name);
      CHECK((parameter.name.find("lora_") == std::string::npos) == parameter.cell->layouts.frozen);
    }
    CHECK(llm::save_adapters(model, scratch.path() / name / "adapters",
                             {.name_of = llm::hugging_face_names(config), .base_model = given.string()}) >=
          0);
    llm::save_llama(model, scratch.path() / name / "merged");
    world().barrier();
    llm::Llama<LlamaMesh, llm::LlamaAdapted<Tensor, 2, 4>, double> again(mesh, config);
    llm::load_llama(again, given / "model.safetensors");
    llm::load_adapters(again, scratch.path() / name / "adapters",
                       {.name_of = llm::hugging_face_names(config)});
    llm::Llama<LlamaMesh, Tensor, double> merged(mesh, config);
    llm::load_llama(merged, scratch.path() / name / "merged");
    Tape first, second, third;
    const double found = item(loss_of(model, first).value());
    CHECK(item(loss_of(again, second).value()) == found);
    CHECK(item(loss_of(merged, third).value()) == doctest::Approx(found).epsilon(1e-12));
    world().barrier();
  }
}

TEST_CASE("a loss of another tape cannot be added to a tape") {
  Tape tape, other;
  const auto loss = sum(tape.input(zeros<float, Replicate, Replicate, Replicate>(llama_alone(), {3})));
  CHECK_THROWS_WITH(other.add_loss(loss, 1), "Tape::add_loss: the loss is on another tape");
}

TEST_CASE("experts add one all-gather and one reduce-scatter to each layer in each pass") {
  using MeshOf = Mesh<ep, tp>;
  using Plan = llm::LlamaExpertParallel<llm::LlamaTensorParallel<>, AxisList<ep, tp>>;
  const auto planned = [](bool experts) {
    return trace<MeshOf>({4, 2}, [=](const MeshOf& mesh) {
      llm::LlamaConfig config{
          .vocabulary = 32, .features = 16, .layers = 3, .heads = 2, .kv_heads = 2, .hidden = 8};
      if (experts) config.experts = MixtureOptions{.experts = 13, .hidden = 8};
      llm::Llama<MeshOf, Plan> model(mesh, config);
      const auto ids = empty<std::int32_t, Shard<0>, Replicate>(mesh, {8, 4});
      Tape tape;
      tape.backward(model(tape.constant(ids), ids, LinearCrossEntropyLoss()));
    });
  };
  const auto with = planned(true), without = planned(false);
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    for (const Collective kind : {Collective::all_gather, Collective::reduce_scatter})
      CHECK(with.count(kind, phase) - without.count(kind, phase) == 3);
    CHECK(with.count(Collective::all_reduce, phase) == without.count(Collective::all_reduce, phase));
    CHECK(with.bytes(phase) - without.bytes(phase) == 3 * 2 * (8 * 4 * 16 * 4));
  }
}

}  // namespace
}  // namespace shardwise::testing::llama_experts
