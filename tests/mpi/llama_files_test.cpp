// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Llama models in Hugging Face's form: the configuration, the names, and weights from any mesh and plan to any
/// other.

#include <doctest/doctest.h>
#include <sys/syscall.h>
#include <shardwise/llm/models/llama/files.hpp>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "llama_support.hpp"
#include "scratch_folder.hpp"

namespace shardwise::testing::llama_files {

using namespace shardwise::llm;
namespace sw = shardwise;
using sw::Index;
using sw::Json;
using sw::Replicate;
using sw::StoredType;
using sw::llm::LlamaConfig;

namespace {

constexpr LlamaConfig grouped{
    .vocabulary = 13, .features = 12, .layers = 2, .heads = 6, .kv_heads = 2, .head_dim = 4, .hidden = 10};

using Model = sw::llm::Llama<LlamaMesh, TensorPlan>;
using SequenceModel = sw::llm::Llama<LlamaMesh, SequencePlan>;

LlamaConfig changed(auto change) {
  LlamaConfig config = grouped;
  change(config);
  return config;
}

/// What a config.json must say, and no more.
Json least() {
  return {{"vocab_size", 32},
          {"hidden_size", 24},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"intermediate_size", 36}};
}

/// Writes a config.json, when no rank reads the one before any more.
std::filesystem::path config_file(const ScratchFolder& folder, const std::string& text) {
  sw::world().barrier();
  return folder.file("config.json", text);
}
LlamaConfig read(const ScratchFolder& folder, const Json& json) {
  return sw::llm::read_llama_config(config_file(folder, json.dump()));
}

/// The message, without the file's path.
std::string problem(const ScratchFolder& folder, const Json& json) {
  const auto path = config_file(folder, json.dump());
  const std::string message = error_of([&] { sw::llm::read_llama_config(path); });
  return has(message, path.string() + ": ") ? message.substr(path.string().size() + 2)
                                            : "unnamed: " + message;
}

bool equal(const LlamaConfig& a, const LlamaConfig& b) {
  return a.vocabulary == b.vocabulary && a.features == b.features && a.layers == b.layers &&
         a.heads == b.heads && a.kv_heads == b.kv_heads && a.head_size() == b.head_size() &&
         a.hidden == b.hidden && a.context == b.context && a.window == b.window && a.epsilon == b.epsilon &&
         a.theta == b.theta && a.scaling == b.scaling && a.tied == b.tied && a.deviation == b.deviation;
}

/// Called before each rename and after it: a process may be killed there.
std::function<void()> between_renames;

}  // namespace

extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                         unsigned flags) noexcept {
  if (between_renames) between_renames();
  const auto result = ::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
  const int code = errno;
  if (between_renames) between_renames();
  errno = code;
  return static_cast<int>(result);
}

TEST_CASE("a configuration comes back as it was") {
  const ScratchFolder folder;
  for (const LlamaConfig& config :
       {grouped, changed([](auto& c) { c.tied = true, c.theta = 500000, c.epsilon = 1e-6, c.context = 99; }),
        changed([](auto& c) { c.head_dim = 0, c.deviation = 0.1; }), changed([](auto& c) { c.window = 77; }),
        changed([](auto& c) { c.scaling = {.rope_type = sw::llm::RopeType::linear, .factor = 2.5}; }),
        changed([](auto& c) {
          c.scaling = {.factor = 32,
                       .low_freq_factor = 1.5,
                       .high_freq_factor = 4.5,
                       .original_max_position_embeddings = 16};
        })}) {
    const auto path = config_file(folder, sw::llm::llama_config_text(config, "float32"));
    CHECK(equal(sw::llm::read_llama_config(path), config));
  }
  const Json json = sw::parse_json(sw::llm::llama_config_text(grouped, "bfloat16"), "text");
  CHECK(json.at("architectures") == Json{"LlamaForCausalLM"});
  CHECK(json.at("model_type") == "llama");
  CHECK(json.at("torch_dtype") == "bfloat16");
  CHECK(json.at("rope_scaling").is_null());
}

TEST_CASE("what a config.json leaves out has Hugging Face's default") {
  const ScratchFolder folder;
  const LlamaConfig config = read(folder, least());
  CHECK(config.kv_heads == 4);
  CHECK(config.head_size() == 6);
  CHECK(config.context == 2048);
  CHECK(config.epsilon == 1e-6);
  CHECK(config.theta == 10000);
  CHECK_FALSE(config.scaling.has_value());
  CHECK_FALSE(config.tied);
  // Also if it is null, or what no key here knows.
  Json json = least();
  json["num_key_value_heads"] = json["rope_scaling"] = json["head_dim"] = nullptr;
  json["attention_bias"] = false;
  json["transformers_version"] = "4.40";
  CHECK(equal(read(folder, json), config));
  json["rope_scaling"] = {{"rope_type", "default"}};
  CHECK(equal(read(folder, json), config));
  json["rope_scaling"] = {{"type", "linear"}, {"factor", 4}};  // as it was called first
  CHECK(read(folder, json).scaling->rope_type == sw::llm::RopeType::linear);
}

TEST_CASE("a Mistral is a Llama with a window") {
  const ScratchFolder folder;
  Json json = least();
  CHECK_FALSE(read(folder, json).window.has_value());
  json["sliding_window"] = nullptr;
  CHECK_FALSE(read(folder, json).window.has_value());
  json["num_attention_heads"] = 8;
  json["hidden_size"] = 32;
  json["model_type"] = "mistral";
  CHECK_FALSE(read(folder, json).window.has_value());
  json.erase("sliding_window");  // then Hugging Face's defaults are those of a Mistral
  CHECK(read(folder, json).window == 4096);
  CHECK(read(folder, json).kv_heads == 8);
  CHECK(read(folder, json).context == 131072);
  json["sliding_window"] = 5;
  CHECK(read(folder, json).window == 5);
  const Json written = sw::parse_json(sw::llm::llama_config_text(read(folder, json), "float32"), "text");
  CHECK(written.at("architectures") == Json{"MistralForCausalLM"});
  CHECK(written.at("sliding_window") == 5);
}

TEST_CASE("rotary embeddings as transformers 4 and as transformers 5 write them") {
  const ScratchFolder folder;
  const Json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 8192}};
  for (const Json& scaling : {Json(nullptr), Json{{"rope_type", "default"}},
                              Json{{"rope_type", "linear"}, {"factor", 2.5}}, llama3}) {
    Json old_form = least(), new_form = least();
    old_form["rope_theta"] = 500000.0;
    old_form["rope_scaling"] = scaling;
    new_form["rope_parameters"] = scaling.is_null() ? Json::object() : scaling;
    new_form["rope_parameters"]["rope_theta"] = 500000.0;
    const LlamaConfig config = read(folder, new_form);
    CHECK(config.theta == 500000);
    CHECK(equal(config, read(folder, old_form)));
    CHECK(config.scaling.has_value() == scaling.contains("factor"));
    old_form["rope_parameters"] = new_form["rope_parameters"];
    CHECK(equal(config, read(folder, old_form)));  // both, and they agree
  }
  Json json = least();
  json["rope_parameters"] = llama3;
  json["rope_parameters"]["partial_rotary_factor"] = 1.0;
  json["rope_theta"] = 7.5;  // here only
  CHECK(read(folder, json).theta == 7.5);
  json["rope_parameters"]["rope_theta"] = 8;
  CHECK(problem(folder, json) == "rope_theta is 7.5 and 8.0, expected one value");
  json.erase("rope_theta");
  json["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8}};
  CHECK(has(problem(folder, json), "rope_parameters: it is {"));
  CHECK(has(problem(folder, json), "}, expected what rope_scaling says"));
  json = least();
  json["rope_parameters"] = {{"rope_theta", 8}, {"factor", 8}};
  CHECK(problem(folder, json) ==
        "rope_parameters.rope_type: it is missing, expected \"default\", \"linear\", \"llama3\" or \"yarn\"");
  json["rope_parameters"] = {{"rope_theta", 8}, {"rope_type", "default"}, {"partial_rotary_factor", 0.5}};
  CHECK(problem(folder, json) == "rope_parameters.partial_rotary_factor: it is 0.5, expected 1");
  json = least();
  json["partial_rotary_factor"] = 0.5;
  CHECK(problem(folder, json) == "partial_rotary_factor: it is 0.5, expected 1");
}

TEST_CASE("the tokens that texts begin and end with") {
  const ScratchFolder folder;
  auto tokens = [&](const std::string& text) {
    config_file(folder, text);
    return sw::llm::read_llama_tokens(folder.path());
  };
  using Ids = std::vector<std::int32_t>;
  CHECK_FALSE(tokens("{}").begin.has_value());
  CHECK(tokens("{}").ends.empty());
  CHECK_FALSE(tokens(R"({"bos_token_id": null, "eos_token_id": null})").begin.has_value());
  CHECK(tokens(R"({"bos_token_id": 0, "eos_token_id": 2})").begin == 0);
  CHECK(tokens(R"({"bos_token_id": 0, "eos_token_id": 2})").ends == Ids{2});
  CHECK(tokens(R"({"eos_token_id": [128001, 128009]})").ends == Ids{128001, 128009});
  auto refused = [&](const std::string& text) { return error_of([&] { tokens(text); }); };
  const std::string where = (folder / "config.json").string() + ": ";
  CHECK(refused(R"({"eos_token_id": [1, -2]})") ==
        where + "eos_token_id[1]: it is -2, expected an integer from 0 to 2147483646");
  CHECK(refused(R"({"eos_token_id": 2147483648})") ==
        where + "eos_token_id: it is 2147483648, expected an integer from 0 to 2147483646");
  CHECK(refused(R"({"bos_token_id": [1, 2]})") ==
        where + "bos_token_id: it is [1,2], expected one token's number, or null");

  sw::world().barrier();
  const auto generation = folder.file("generation_config.json", R"({"eos_token_id": [7, 8]})");
  CHECK(tokens(R"({"bos_token_id": 5, "eos_token_id": 2})").begin == 5);
  CHECK(tokens(R"({"bos_token_id": 5, "eos_token_id": 2})").ends == Ids{7, 8});
  sw::world().barrier();
  folder.file("generation_config.json", R"({"bos_token_id": "x"})");
  CHECK(refused("{}") ==
        generation.string() +
            ": bos_token_id: it is \"x\", expected a token's number, a list of them, or null");

  // They are written as they are read.
  sw::world().barrier();
  if (sw::world().rank() == 0) std::filesystem::remove(generation);
  CHECK(tokens(sw::llm::llama_config_text(grouped, "float32", {.begin = 3, .ends = {4}})).begin == 3);
  CHECK(tokens(sw::llm::llama_config_text(grouped, "float32", {.begin = 3, .ends = {4}})).ends == Ids{4});
  CHECK(tokens(sw::llm::llama_config_text(grouped, "float32", {.ends = {4, 5}})).ends == Ids{4, 5});
  const Json none = sw::parse_json(sw::llm::llama_config_text(grouped, "float32"), "text");
  CHECK(none.at("bos_token_id").is_null());
  CHECK(none.at("eos_token_id").is_null());
}

TEST_CASE("what a config.json says besides is kept where it is written anew") {
  const ScratchFolder folder;
  Json json = least();
  json["pad_token_id"] = 7;
  json["eos_token_id"] = 2;
  json["dtype"] = json["torch_dtype"] = "float16";
  json["rope_parameters"] = {{"rope_theta", 7.5}, {"rope_type", "default"}};
  json["transformers_version"] = "5.0";
  json["hidden_size"] = 48;
  const auto path = config_file(folder, json.dump());
  const LlamaConfig config = sw::llm::read_llama_config(path);
  LlamaTokens tokens = sw::llm::read_llama_tokens(folder.path());
  tokens.ends = {3, 4};
  const Json written = sw::parse_json(sw::llm::llama_config_text(config, "bfloat16", tokens), "text");
  CHECK(written.at("pad_token_id") == 7);
  CHECK(written.at("transformers_version") == "5.0");
  CHECK(written.at("eos_token_id") == Json{3, 4});
  CHECK(written.at("dtype") == "bfloat16");
  CHECK(written.at("torch_dtype") == "bfloat16");
  CHECK(written.at("rope_theta") == 7.5);
  CHECK_FALSE(written.contains("rope_parameters"));
  CHECK(written.at("hidden_size") == 48);
  CHECK(equal(read(folder, written), config));
}

TEST_CASE("config.json and weights are saved together") {
  const ScratchFolder folder;
  const auto meshes = llama_meshes(grouped);
  Model model(meshes.back(), grouped);
  sw::initialize(model, 3);
  CHECK(has(error_of([&] { sw::llm::save_llama(model, folder / "x.safetensors"); }),
            "x.safetensors: expected a folder, for the weights and config.json"));
  CHECK(std::filesystem::is_empty(folder.path()));
  sw::world().barrier();

  sw::llm::save_llama(model, folder / "model", {.max_file_bytes = 1000}, {.begin = 1, .ends = {2, 3}});
  CHECK(sw::llm::read_llama_tokens(folder / "model").ends == std::vector<std::int32_t>{2, 3});
  const auto expected = weights_of(model);
  const std::string config = bytes_of_file(folder / "model" / "config.json");
  sw::world().barrier();
  // The save fails before its weights count: both are the old ones.
  const auto index = folder / "model" / "model.safetensors.index.json", aside = folder / "index";
  if (sw::world().rank() == 0) {
    std::filesystem::rename(index, aside);
    std::filesystem::create_directories(index / "taken");
  }
  sw::world().barrier();
  sw::initialize(model, 4);
  CHECK(has(error_of([&] { sw::llm::save_llama(model, folder / "model", {.max_file_bytes = 1000}); }),
            "cannot be renamed"));
  if (sw::world().rank() == 0) {
    std::filesystem::remove_all(index);
    std::filesystem::rename(aside, index);
  }
  sw::world().barrier();
  CHECK(bytes_of_file(folder / "model" / "config.json") == config);
  sw::llm::load_llama(model, folder / "model");
  CHECK(weights_of(model) == expected);
}

TEST_CASE("a kill leaves the weights of a model and its config.json, or those of the model before") {
  const ScratchFolder folder;
  const auto path = folder / "model";
  const auto mesh = llama_meshes(grouped).back();
  const LlamaConfig wider = changed([](auto& config) { config.features = 24; });
  int looks = 0, unlike = 0, refused = 0;
  const auto save = [&](const LlamaConfig& config, Index most) {
    Model model(mesh, config);
    sw::initialize(model, 3);
    looks = unlike = refused = 0;
    const std::string text = std::to_string(config.features);
    if (sw::world().rank() == 0) {
      between_renames = [&] {
        const sw::Weights weights(path);
        ++looks;
        const Index features = weights.tensor("model.norm.weight").shape[0];
        try {
          unlike += sw::llm::read_llama_config(path / "config.json").features != features ||
                    bytes_of_file(path / "tokenizer.json") != std::to_string(features) ||
                    std::filesystem::exists(path / "old") == (config.features == features);
        } catch (const std::runtime_error& error) {
          refused += error.what() ==
                     (path / "config.json").string() + ": cannot be opened: No such file or directory";
          unlike += refused == 0;
        }
      };
    }
    sw::llm::save_llama(
        model, path, {.max_file_bytes = most, .beside = {{"tokenizer.json", text}, {"old", std::nullopt}}});
    between_renames = {};
    CHECK(unlike == 0);
    if (sw::world().rank() == 0) CHECK_FALSE(std::filesystem::exists(path / "old"));
    folder.file("model/old", "of the model before");
    if (sw::world().rank() == 0) CHECK(looks > 0);
    const auto expected = weights_of(model);
    sw::initialize(model, 4);
    sw::llm::load_llama(model, path);
    CHECK(weights_of(model) == expected);
    CHECK(equal(sw::llm::read_llama_config(path / "config.json"), config));
    sw::world().barrier();
  };
  Model first(mesh, grouped);
  sw::initialize(first, 3);
  sw::llm::save_llama(first, path, {.beside = {{"tokenizer.json", "12"}}});
  folder.file("model/note", "mine");
  folder.file("model/old", "of the model before");
  if (sw::world().rank() == 0) std::filesystem::create_symlink("nowhere", path / "link");
  sw::world().barrier();
  for (const Index most : {0, 1000, 1000, 0}) {  // one file, then several, others, one again
    for (const LlamaConfig& config : {wider, grouped}) {
      save(config, most);
      CHECK(refused == 0);
    }
  }
  CHECK(bytes_of_file(path / "note") == "mine");
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    names.insert(entry.path().filename().string());
  CHECK(names ==
        std::set<std::string>{"config.json", "link", "model.safetensors", "note", "old", "tokenizer.json"});
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  sw::world().barrier();

  // A folder that has others in it stays where it is. A kill may leave it without a config.json.
  if (sw::world().rank() == 0) std::filesystem::create_directory(path / "inner");
  sw::world().barrier();
  save(wider, 0);
  if (sw::world().rank() == 0) CHECK(refused > 0);
  for (const char* name : {"config.json.replaced", "tokenizer.json.replaced", "old.replaced"})
    CHECK_FALSE(std::filesystem::exists(path / name));
  // A save that fails there leaves what was there.
  const auto before = bytes_of_file(path / "config.json");
  if (sw::world().rank() == 0) {
    std::filesystem::remove(path / "model.safetensors");
    std::filesystem::create_directories(path / "model.safetensors" / "taken");
  }
  sw::world().barrier();
  CHECK(has(error_of([&] { sw::llm::save_llama(first, path); }), "cannot be renamed"));
  CHECK(bytes_of_file(path / "config.json") == before);
  CHECK(std::filesystem::is_directory(path / "inner"));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("what is wrong in a config.json is named with file, key and value") {
  const ScratchFolder folder;
  auto with = [&](const char* key, const Json& value) {
    Json json = least();
    json[key] = value;
    return problem(folder, json);
  };
  for (const char* key :
       {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"}) {
    Json json = least();
    json.erase(key);
    CHECK(problem(folder, json) == std::string(key) + ": it is missing, expected an integer, 1 or more");
    CHECK(with(key, nullptr) == std::string(key) + ": it is missing, expected an integer, 1 or more");
    CHECK(with(key, 0) == std::string(key) + ": it is 0, expected an integer, 1 or more");
  }
  CHECK(problem(folder, Json::array()) == "it is [], expected an object");
  CHECK(with("num_key_value_heads", -2) == "num_key_value_heads: it is -2, expected an integer, 1 or more");
  CHECK(with("head_dim", 6.5) == "head_dim: it is 6.5, expected an integer, 1 or more");
  CHECK(with("max_position_embeddings", "many") ==
        "max_position_embeddings: it is \"many\", expected an integer, 1 or more");
  CHECK(with("vocab_size", 18446744073709551615u) ==
        "vocab_size: it is 18446744073709551615, expected an integer, 1 or more");
  CHECK(with("rms_norm_eps", 0) == "rms_norm_eps: it is 0, expected a positive number");
  for (const double number : {1e39, 3.5e38, 1e-39}) {
    for (const char* key : {"rms_norm_eps", "rope_theta", "initializer_range"}) {
      CHECK(with(key, number) == std::string(key) + ": it is " + Json(number).dump() +
                                     ", expected a number from 1.2e-38 to 3.4e38");
    }
  }
  CHECK(with("rope_theta", 3e38) == "unnamed: no error");
  CHECK(with("rope_theta", -1.5) == "rope_theta: it is -1.5, expected a positive number");
  CHECK(with("initializer_range", true) == "initializer_range: it is true, expected a positive number");
  CHECK(with("tie_word_embeddings", 1) == "tie_word_embeddings: it is 1, expected true or false");
  CHECK(has(with("model_type", "gemma"), "model_type: it is \"gemma\", expected \"llama\", \"mistral\", "));
  CHECK(with("sliding_window", 4) == "sliding_window: it is 4, expected null in a model of type \"llama\"");
  CHECK(with("layer_types", {"full_attention"}) ==
        "layer_types: it is [\"full_attention\"], expected a list of 2");
  CHECK(with("hidden_act", "gelu") == "hidden_act: it is \"gelu\", expected \"silu\"");
  CHECK(with("attention_bias", true) == "attention_bias: it is true, expected false");
  CHECK(with("mlp_bias", true) == "mlp_bias: it is true, expected false");
  for (const auto& [key, value] :
       std::vector<std::pair<const char*, Json>>{{"attention_dropout", 0.1},
                                                 {"qk_norm", true},
                                                 {"logit_scale", 0.0625},
                                                 {"logits_scaling", 8.0},
                                                 {"residual_multiplier", 0.22},
                                                 {"final_logit_softcapping", 30.0},
                                                 {"quantization_config", {{"bits", 4}}},
                                                 {"lm_head_bias", true},
                                                 {"rope_interleaved", true},
                                                 {"num_local_experts", 8},
                                                 {"use_sliding_window", true}}) {
    CHECK(with(key, value) ==
          std::string(key) + ": it is " + value.dump() +
              ", expected no such key: it changes what the model computes, and is not supported");
  }
  for (const auto& [key, value] : std::vector<std::pair<const char*, Json>>{{"attention_dropout", 0.0},
                                                                            {"logit_scale", 1.0},
                                                                            {"quantization_config", nullptr},
                                                                            {"rope_interleaved", false},
                                                                            {"is_llama_config", true},
                                                                            {"pretraining_tp", 2},
                                                                            {"output_attentions", true},
                                                                            {"_attn_implementation", "x"},
                                                                            {"notes", "a sentence"},
                                                                            {"pruned_heads", Json::object()},
                                                                            {"best_loss", 0.5}}) {
    CHECK(with(key, value) == "unnamed: no error");
  }
  CHECK(with("rope_scaling", {{"rope_type", "linear"}, {"factor", 2}, {"attention_factor", 0.5}}) ==
        "rope_scaling: the key \"attention_factor\" is not supported");
  CHECK(with("num_attention_heads", 5) == "LlamaConfig: 24 features are not a multiple of 5 heads");
  CHECK(with("num_key_value_heads", 3) == "LlamaConfig: 4 heads are not a multiple of 3 key/value heads");
  CHECK(with("head_dim", 5) == "LlamaConfig: rotary embeddings need an even head_dim, not 5");

  auto scaled = [&](const Json& scaling) { return with("rope_scaling", scaling); };
  CHECK(scaled(Json::array()) == "rope_scaling: it is [], expected an object");
  CHECK(scaled(Json::object()) ==
        "rope_scaling.rope_type: it is missing, expected \"default\", \"linear\", \"llama3\" or \"yarn\"");
  CHECK(
      scaled({{"rope_type", "longrope"}}) ==
      "rope_scaling.rope_type: it is \"longrope\", expected \"default\", \"linear\", \"llama3\" or \"yarn\"");
  CHECK(scaled({{"type", "dynamic"}}) ==
        "rope_scaling.type: it is \"dynamic\", expected \"default\", \"linear\", \"llama3\" or \"yarn\"");
  CHECK(scaled({{"rope_type", "linear"}}) ==
        "rope_scaling.factor: it is missing, expected a positive number");
  CHECK(scaled({{"rope_type", "linear"}, {"factor", 0}}) ==
        "rope_scaling.factor: it is 0, expected a positive number");
  CHECK(scaled({{"rope_type", "llama3"}, {"factor", 8}}) ==
        "rope_scaling.original_max_position_embeddings: it is missing, expected an integer, 1 or more");
  CHECK(scaled({{"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", "low"}}) ==
        "rope_scaling.low_freq_factor: it is \"low\", expected a positive number");

  CHECK(scaled({{"rope_type", "llama3"},
                {"factor", 8},
                {"low_freq_factor", 4},
                {"high_freq_factor", 4},
                {"original_max_position_embeddings", 8}}) ==
        "rope_scaling: low_freq_factor is 4.0, expected less than high_freq_factor, 4.0");
  CHECK(with("vocab_size", Index{1} << 60) ==
        "LlamaConfig: vocabulary is 1152921504606846976, which must be 2147483647 or less");
  CHECK(with("num_hidden_layers", 1000000000) ==
        "LlamaConfig: layers is 1000000000, which must be 65536 or less");
  CHECK(has(with("hidden_size", Index{6} << 50),
            "more bytes than are counted: vocabulary 32, features 6755399441055744"));
  CHECK(has(with("head_dim", Index{1} << 62), "more bytes than are counted"));
  CHECK(has(with("intermediate_size", std::numeric_limits<Index>::max()), "more bytes than are counted"));
  LlamaConfig endless;
  endless.context = std::numeric_limits<Index>::max();
  CHECK(endless.checked().attention_in_layers() == doctest::Approx(1));

  const auto no_json = folder.file("broken.json", "{\"vocab_size\": 32");
  CHECK(has(error_of([&] { sw::llm::read_llama_config(no_json); }), "broken.json: not JSON: "));
  CHECK(has(error_of([&] { sw::llm::read_llama_config(folder / "none.json"); }), "none.json"));
  const auto large = folder.file("large.json", "{\"rope_theta\": 1e400}");
  CHECK(error_of([&] { sw::llm::read_llama_config(large); }) ==
        large.string() + ": not JSON: number overflow parsing '1e400'");
}

TEST_CASE("Hugging Face's name for every parameter") {
  Model model(llama_alone(), grouped);
  std::vector<std::string> names;
  sw::for_each_named_parameter(
      model, [&](std::string_view path, auto&) { names.push_back(sw::llm::hugging_face_name(path)); });
  std::vector<std::string> expected{"model.embed_tokens.weight"};
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    for (const char* name :
         {"input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
          "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
      expected.push_back(layer + std::string(name) + ".weight");
    }
  }
  expected.insert(expected.end(), {"model.norm.weight", "lm_head.weight"});
  CHECK(names == expected);
}

TEST_CASE("a model that one mesh saved is the same on any other, under either plan") {
  const ScratchFolder folder;
  const auto meshes = llama_meshes(grouped);
  Model model(meshes.front(), grouped);
  sw::initialize(model, 3);
  const auto expected = weights_of(model);
  sw::llm::save_llama(model, folder / "model");
  const LlamaConfig config = sw::llm::read_llama_config(folder / "model" / "config.json");
  CHECK(equal(config, grouped));
  CHECK(sw::read_json(folder / "model" / "config.json").at("torch_dtype") == "float32");
  // Projections are matrices there, where they have a dimension for heads here.
  const sw::Weights weights(folder / "model");
  CHECK(weights.tensor("model.layers.1.self_attn.k_proj.weight").shape == std::vector<Index>{8, 12});
  CHECK(weights.tensor("model.layers.1.self_attn.o_proj.weight").shape == std::vector<Index>{12, 24});
  const std::string bytes = bytes_of_file(folder / "model" / "model.safetensors");
  for (const LlamaMesh& mesh : meshes) {
    Model tensor(mesh, config);
    sw::llm::load_llama(tensor, folder / "model");
    CHECK(weights_of(tensor) == expected);
    SequenceModel sequence(mesh, config);
    sw::llm::load_llama(sequence, folder / "model" / "model.safetensors");
    CHECK(weights_of(sequence) == expected);
    sw::llm::save_llama(sequence, folder / "again");
    CHECK(bytes_of_file(folder / "again" / "model.safetensors") == bytes);
    CHECK(bytes_of_file(folder / "again" / "config.json") == bytes_of_file(folder / "model" / "config.json"));
  }
  Model single(llama_alone(), config);
  CHECK(sw::llm::load_llama(single, folder / "model") == sw::parameter_count(single) * 4);
  CHECK(weights_of(single) == expected);
}

TEST_CASE("bfloat16 in several files with an index") {
  const ScratchFolder folder;
  const auto meshes = llama_meshes(grouped);
  SequenceModel model(meshes.back(), grouped);
  sw::initialize(model, 3);
  const auto exact = weights_of(model);
  sw::llm::save_llama(model, folder / "model", {.type = StoredType::bf16, .max_file_bytes = 1000});
  CHECK(sw::read_json(folder / "model" / "config.json").at("torch_dtype") == "bfloat16");
  const Json index = sw::read_json(folder / "model" / "model.safetensors.index.json");
  CHECK(index.at("weight_map").size() == 1 + 2 * 9 + 2);
  CHECK(index.at("metadata").at("total_size") == sw::parameter_count(model) * 2);
  CHECK(sw::Weights(folder / "model").files().size() > 3);

  Model other(meshes.front(), grouped);
  sw::llm::load_llama(other, folder / "model");
  const auto rounded = weights_of(other);
  REQUIRE(rounded.size() == exact.size());
  bool near = true;
  for (std::size_t i = 0; i < exact.size(); ++i)
    near &= std::abs(rounded[i] - exact[i]) <= std::abs(exact[i]) / 256;
  CHECK(near);
  CHECK(rounded != exact);
  sw::llm::save_llama(other, folder / "again", {.type = StoredType::bf16});  // what is rounded stays as it is
  sw::llm::load_llama(model, folder / "again");
  CHECK(weights_of(model) == rounded);
}

TEST_CASE(
    "a tied model takes a head in the file that is its table, and no other; rotary frequencies are ignored") {
  const ScratchFolder folder;
  const auto meshes = llama_meshes(grouped);
  const LlamaMesh& mesh = meshes.back();
  Model model(mesh, grouped);
  sw::initialize(model, 3);
  const auto write = [&](bool equal, Index file_bytes) {
    std::vector<sw::NamedTensor> tensors;
    sw::for_each_named_parameter(model, [&](std::string_view path, auto& parameter) {
      if (equal && path == "tokens.weight") tensors.emplace_back("lm_head.weight", parameter.value());
      if (!equal || path != "head.weight")
        tensors.emplace_back(sw::llm::hugging_face_name(path), parameter.value());
    });
    const auto table = sw::zeros<float, Replicate, Replicate, Replicate>(mesh, {2});
    tensors.emplace_back("model.layers.0.self_attn.rotary_emb.inv_freq", table);
    sw::write_tensors(folder / "model", tensors, {.max_file_bytes = file_bytes});
  };
  for (const Index file_bytes : {0, 1000}) {  // one file, and several
    write(false, file_bytes);
    Model again(mesh, grouped);
    sw::llm::load_llama(again, folder / "model");
    CHECK(weights_of(again) == weights_of(model));
    Model tied(mesh, changed([](auto& c) { c.tied = true; }));
    sw::initialize(tied, 4);
    const auto before = weights_of(tied);
    const std::string error = error_of([&] { sw::llm::load_llama(tied, folder / "model"); });
    INFO(error);
    CHECK(has(error, "tensor \"lm_head.weight\" differs from \"model.embed_tokens.weight\" in row "));
    CHECK(has(error, "\"tie_word_embeddings\" is true: set it to false in config.json"));
    CHECK(weights_of(tied) == before);

    write(true, file_bytes);
    sw::llm::load_llama(tied, folder / "model");
    const auto expected = weights_of(model);  // all but the head, which comes last
    const auto found = weights_of(tied);
    CHECK(found == std::vector<double>(expected.begin(), expected.end() - 13 * 12));
    // A tied model writes no head.
    sw::llm::save_llama(tied, folder / "tied");
    CHECK_FALSE(sw::Weights(folder / "tied").contains("lm_head.weight"));
    CHECK(sw::llm::read_llama_config(folder / "tied" / "config.json").tied);
    sw::world().barrier();
  }
}

TEST_CASE("weights that do not fit are listed, and the model stays as it was") {
  const ScratchFolder folder;
  const auto meshes = llama_meshes(grouped);
  const LlamaMesh& mesh = meshes.back();
  Model model(mesh, grouped);
  sw::initialize(model, 3);
  sw::llm::save_llama(model, folder / "model");
  auto loaded = [&](auto change) {
    Model other(mesh, changed(change));
    sw::initialize(other, 4);
    const auto before = weights_of(other);
    const std::string message = error_of([&] { sw::llm::load_llama(other, folder / "model"); });
    CHECK(weights_of(other) == before);
    return message;
  };
  const std::string missing = loaded([](auto& c) { c.layers = 3; });
  CHECK(has(missing,
            "tensor \"model.layers.2.self_attn.q_proj.weight\": there is no such tensor (parameter "
            "layers.2.attention.wq.weight)"));
  const std::string surplus = loaded([](auto& c) { c.layers = 1; });
  CHECK(has(surplus, "tensor \"model.layers.1.mlp.up_proj.weight\" is not a parameter of the module"));
  const std::string misshapen = loaded([](auto& c) { c.hidden = 11; });
  CHECK(has(misshapen,
            "tensor \"model.layers.0.mlp.gate_proj.weight\": expected the shape [11 x 12], found [10 x "
            "12] (parameter layers.0.mlp.gate.weight)"));
  CHECK_FALSE(has(misshapen, "self_attn"));  // which fits
  CHECK(has(error_of([&] { sw::llm::load_llama(model, folder / "nowhere"); }),
            "nowhere: no such file or folder"));
}

}  // namespace shardwise::testing::llama_files
