// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The families of models that `Llama` computes by options: their published configurations, their files, and the plan
/// of norms of heads. tests/mpi/llama_reference.hpp compares what they compute with PyTorch.

#include <doctest/doctest.h>
#include <shardwise/llm/models/llama/files.hpp>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/muon.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include "llama_support.hpp"
#include "scratch_folder.hpp"

namespace shardwise::testing::llama_families {
namespace {

llm::LlamaConfig read(const Json& json) { return llm::parse_llama_config(json); }
std::string problem(const Json& json) {
  return error_of([&] { read(json); });
}

/// The message of a `std::invalid_argument`.
std::string refusal(auto f) {
  try {
    f();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

/// As published, without keys that are the same in all.
Json published(const std::string& text) { return parse_json(text, "published"); }

const char* const qwen2 = R"({"attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151645,
  "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02, "intermediate_size": 4864,
  "max_position_embeddings": 32768, "max_window_layers": 21, "model_type": "qwen2", "num_attention_heads": 14,
  "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
  "sliding_window": 32768, "tie_word_embeddings": true, "use_cache": true, "use_sliding_window": false,
  "vocab_size": 151936})";
const char* const qwen3 = R"({"attention_bias": false, "attention_dropout": 0.0, "head_dim": 128,
  "hidden_act": "silu", "hidden_size": 1024, "initializer_range": 0.02, "intermediate_size": 3072,
  "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3", "num_attention_heads": 16,
  "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null,
  "rope_theta": 1000000, "sliding_window": null, "tie_word_embeddings": true, "use_sliding_window": false,
  "vocab_size": 151936})";
const char* const gemma2 =
    R"({"attention_bias": false, "attention_dropout": 0.0, "attn_logit_softcapping": 50.0,
  "cache_implementation": "hybrid", "final_logit_softcapping": 30.0, "head_dim": 256,
  "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304,
  "initializer_range": 0.02, "intermediate_size": 9216, "max_position_embeddings": 8192, "model_type": "gemma2",
  "num_attention_heads": 8, "num_hidden_layers": 26, "num_key_value_heads": 4, "query_pre_attn_scalar": 256,
  "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "sliding_window": 4096, "vocab_size": 256000})";
const char* const gemma3 = R"({"attention_bias": false, "attn_logit_softcapping": null,
  "cache_implementation": "hybrid", "final_logit_softcapping": null, "head_dim": 256,
  "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152, "initializer_range": 0.02,
  "intermediate_size": 6912, "max_position_embeddings": 32768, "model_type": "gemma3_text",
  "num_attention_heads": 4, "num_hidden_layers": 26, "num_key_value_heads": 1, "query_pre_attn_scalar": 256,
  "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000, "rope_scaling": null, "rope_theta": 1000000,
  "sliding_window": 512, "sliding_window_pattern": 6, "vocab_size": 262144})";

}  // namespace

TEST_CASE("published configurations have the published numbers of parameters") {
  CHECK(read(published(qwen2)).parameters() == 494032768);
  CHECK(read(published(qwen3)).parameters() == 596049920);
  CHECK(read(published(gemma2)).parameters() == 2614341888);
  CHECK(read(published(gemma3)).parameters() == 999885952);

  const llm::LlamaConfig two = read(published(gemma2)), three = read(published(gemma3));
  CHECK(two.tied);  // by default
  CHECK(two.for_layer(0).window == 4096);
  CHECK_FALSE(two.for_layer(1).window.has_value());
  CHECK(two.attention_softcap == 50);
  CHECK(two.logit_softcap == 30);
  CHECK(three.attention_softcap == 0);
  CHECK(three.for_layer(4).window == 512);
  CHECK(three.for_layer(4).theta == 10000);
  CHECK_FALSE(three.for_layer(5).window.has_value());
  CHECK(three.for_layer(5).theta == 1000000);
  CHECK_FALSE(read(published(qwen2)).window.has_value());  // it is stated, and not used
  CHECK(read(published(qwen2)).qkv_bias);
}

TEST_CASE("a configuration of each family comes back as it was, with its other keys") {
  for (const char* text : {qwen2, qwen3, gemma2, gemma3}) {
    CAPTURE(text);
    const Json given = published(text);
    const llm::LlamaConfig config = read(given);
    const Json written = parse_json(llm::llama_config_text(config, "bfloat16", {.rest = given}), "written");
    for (const auto& each : given.items()) {
      const auto& key = each.key();
      CAPTURE(key);
      if (key != "bos_token_id" && key != "eos_token_id") CHECK(written.at(key) == each.value());
    }
    const Json alone = parse_json(llm::llama_config_text(config, "float32"), "alone");
    CHECK(llm::llama_config_text(read(alone), "float32") == llm::llama_config_text(config, "float32"));
    CHECK(alone.at("model_type") == given.at("model_type"));
  }
}

TEST_CASE("biases of heads are not matrices for Muon") {
  const llm::LlamaConfig config = llm::read_llama_config(
      std::filesystem::path(__FILE__).parent_path().parent_path() / "reference" / "qwen2" / "config.json");
  llm::Llama<LlamaMesh, TensorPlan> model(llama_alone(), config);
  int biases = 0;
  for (const auto& [path, cell] : detail::named_parameters_of(model)) {
    const ParameterInfo info{path, cell->stored.rank, 0};
    const bool layer = path.find("attention.w") != path.npos || path.find("mlp.") != path.npos;
    CHECK(is_not_hidden_matrix(info) == !(layer && path.ends_with(".weight")));
    biases += path.ends_with(".bias") ? 1 : 0;
  }
  CHECK(biases == 6);
  CHECK(is_not_hidden_matrix({"layers.0.mlp.gate_up", 4, 0}));  // a stack of experts
}

TEST_CASE("layers with a window, as transformers 4 and as transformers 5 write them") {
  Json json = published(gemma3);
  json.erase("sliding_window_pattern");
  json["num_hidden_layers"] = 4;
  json["layer_types"] = {"sliding_attention", "sliding_attention", "full_attention", "sliding_attention"};
  CHECK(read(json).full_every == 3);
  json["layer_types"][3] = "full_attention";
  CHECK(problem(json) == "layer_types[3]: it is \"full_attention\", expected \"sliding_attention\"");
  json["layer_types"].erase(3);
  CHECK(has(problem(json), "expected a list of 4"));
  json.erase("layer_types");
  CHECK(read(json).full_every == 6);

  for (const char* key : {"rope_theta", "rope_local_base_freq", "rope_scaling"}) json.erase(key);
  json["rope_parameters"] = {
      {"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 5e5}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 2e4}}}};
  const llm::LlamaConfig config = read(json);
  CHECK(config.theta == 5e5);
  CHECK(config.scaling->factor == 8);
  CHECK(config.window_theta == 2e4);
  CHECK_FALSE(config.for_layer(0).scaling.has_value());
  CHECK(config.for_layer(5).scaling.has_value());

  json = published(gemma2);  // shorter than its pattern
  json["num_hidden_layers"] = 1;
  json["layer_types"] = {"sliding_attention"};
  CHECK(read(json).full_every == 2);
  json["num_hidden_layers"] = 2;
  json["layer_types"] = {"sliding_attention", "sliding_attention"};
  CHECK(problem(json) == "every second layer of a gemma2 must have \"full_attention\"");
  json.erase("layer_types");
  json["sliding_window"] = nullptr;
  CHECK(has(problem(json), "sliding_window: it is missing, expected an integer"));

  json = published(qwen3);
  json["use_sliding_window"] = true;
  CHECK_FALSE(read(json).window.has_value());  // from layer 28 on, of 28
  json["sliding_window"] = 99;
  json["max_window_layers"] = 0;
  CHECK(read(json).window == 99);
  Json written = parse_json(llm::llama_config_text(read(json), "float32", {.rest = json}), "written");
  CHECK(read(written).window == 99);
  llm::LlamaConfig without = read(json);
  without.window.reset();
  written = parse_json(llm::llama_config_text(without, "float32", {.rest = json}), "written");
  CHECK_FALSE(read(written).window.has_value());
  json["sliding_window"] = nullptr;  // is not absent
  CHECK_FALSE(read(json).window.has_value());
  json["num_key_value_heads"] = nullptr;
  CHECK(read(json).kv_heads == 16);
  json["max_window_layers"] = 5;
  json["sliding_window"] = 99;
  CHECK(problem(json) == "max_window_layers: it is 5, expected 0, or at least the number of layers, 28");
}

TEST_CASE("what no family computes is refused by name") {
  Json json = published(gemma3);
  json["model_type"] = "gemma3";
  CHECK(problem(json) ==
        "model_type: it is \"gemma3\", expected \"llama\", \"mistral\", \"qwen2\", \"qwen3\", \"mixtral\", "
        "\"qwen3_moe\", \"deepseek\", \"deepseek_v2\", \"deepseek_v3\", \"gemma2\", \"gemma3_text\"");
  json = published(gemma2);
  json["hidden_activation"] = "gelu";
  CHECK(problem(json) == "hidden_activation: it is \"gelu\", expected \"gelu_pytorch_tanh\"");
  json = published(gemma3);
  json["attn_logit_softcapping"] = 50.0;
  CHECK(problem(json) == "attn_logit_softcapping: it is 50.0, expected null");
  json = published(qwen3);
  json["architectures"] = {"LlamaForCausalLM"};
  CHECK(problem(json) ==
        "architectures: it is [\"LlamaForCausalLM\"], expected [\"Qwen3ForCausalLM\"], as model_type says");
  json = published(qwen3);
  json["attn_logit_softcapping"] = 50.0;
  CHECK(has(problem(json), "attn_logit_softcapping: it is 50"));
  json = published(qwen2);
  json["rope_scaling"] = {{"rope_type", "longrope"}, {"factor", 4.0}};
  CHECK(has(problem(json), "it is \"longrope\", expected \"default\", \"linear\", \"llama3\" or \"yarn\""));
  json["rope_scaling"] = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}};
  CHECK(read(json).scaling->rope_type == llm::RopeType::yarn);
  json["rope_scaling"]["attention_factor"] = 1.5;
  CHECK(has(problem(json), "the key \"attention_factor\" is not supported"));

  llm::LlamaConfig mixed = read(published(qwen3));
  mixed.qkv_bias = true;
  CHECK(refusal([&] { llm::llama_config_text(mixed, "float32"); }) ==
        "LlamaConfig: no family of Hugging Face's models has these options together");
  mixed = read(published(gemma2));
  mixed.attention_softcap = -1;
  CHECK(refusal([&] { mixed.checked(); }) ==
        "LlamaConfig: query_scalar is 256, attention_softcap -1, logit_softcap 30; each must be 0 or more");
}

TEST_CASE("the files of each family come back byte for byte, from every mesh") {
  const ScratchFolder folder;
  for (const std::string name : {"qwen2", "qwen3", "gemma2", "gemma3"}) {
    CAPTURE(name);
    const auto given = std::filesystem::path(__FILE__).parent_path().parent_path() / "reference" / name;
    const llm::LlamaConfig config = llm::read_llama_config(given / "config.json");
    for (const LlamaMesh& mesh : llama_meshes(config)) {
      CAPTURE(mesh.size<tp>());
      CAPTURE(mesh.size<kvr>());
      llm::Llama<LlamaMesh, SequencePlan> model(mesh, config);
      llm::load_llama(model, given);
      llm::save_llama(model, folder.path() / name, {}, llm::read_llama_tokens(given));
      world().barrier();
      const Weights before(given), after(folder.path() / name);
      CHECK(before.files().front().tensors().size() == after.files().front().tensors().size());
      for (const StoredTensor& tensor : before.files().front().tensors()) {
        CAPTURE(tensor.name);
        const auto bytes_of = [&](const Weights& weights) {
          std::vector<float> numbers(static_cast<std::size_t>(tensor.bytes) / sizeof(float));
          const StoredTensor& stored = weights.tensor(tensor.name);
          const Index rows = stored.shape.front(), columns = stored.shape.size() > 1 ? stored.shape[1] : 1;
          if (stored.shape.size() > 1) {
            weights.read_block(tensor.name,
                               View<float, 2>{numbers.data(), {rows, columns}, {}, {rows, columns}});
          } else {
            weights.read_block(tensor.name, View<float, 1>{numbers.data(), {rows}, {}, {rows}});
          }
          return numbers;
        };
        CHECK(before.tensor(tensor.name).shape == after.tensor(tensor.name).shape);
        CHECK(bytes_of(before) == bytes_of(after));
      }
      CHECK(llm::llama_config_text(llm::read_llama_config(folder.path() / name / "config.json"), "float32") ==
            llm::llama_config_text(config, "float32"));
      world().barrier();
    }
  }
}

namespace {

/// A step of a layer on four ranks.
template <class PlanType>
constexpr auto planned(bool head_norms) {
  return trace<Mesh<tp>>({4}, [=](const Mesh<tp>& mesh) {
    llm::LlamaConfig config{
        .vocabulary = 8, .features = 16, .layers = 1, .heads = 4, .kv_heads = 4, .hidden = 8};
    config.head_dim = 128;
    config.head_norms = head_norms;
    llm::Llama<Mesh<tp>, PlanType> model(mesh, config);
    Tape tape;
    const auto ids = empty<std::int32_t, Replicate>(mesh, {1, 4});
    const auto loss = model(tape.constant(ids), ids, LinearCrossEntropyLoss());
    tape.backward(loss);
    AdamW adamw;
    adamw.step(model);
  });
}

/// Norms of heads add their weights' gradients, of 128 floats each, to one all-reduce of the optimizer.
template <class PlanType>
constexpr bool adds_a_kilobyte() {
  const auto with = planned<PlanType>(true), without = planned<PlanType>(false);
  return with.count(Collective::all_reduce, Phase::optimizer) == 1 &&
         with.bytes(Phase::optimizer) - without.bytes(Phase::optimizer) == 2 * 128 * 4 &&
         with.bytes() - without.bytes() == 2 * 128 * 4;
}
static_assert(adds_a_kilobyte<llm::LlamaTensorParallel<>>());
static_assert(adds_a_kilobyte<llm::LlamaSequenceParallel<>>());
static_assert(planned<llm::LlamaTensorParallel<>>(false).count(Collective::all_reduce, Phase::optimizer) ==
              0);

}  // namespace

}  // namespace shardwise::testing::llama_families
