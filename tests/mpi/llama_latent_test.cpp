// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Multi-head latent attention: its sizes, its keys in config.json, its files, generation, and what it communicates.
/// llama_reference.hpp compares what it computes with PyTorch.

#include <shardwise/llm/models/llama/tensors.hpp>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/nn/ring_attention.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/weights/save_weights.hpp>

#include "llama_reference.hpp"
#include "scratch_folder.hpp"

namespace shardwise::testing::llama_latent {
namespace {

std::filesystem::path reference(const std::string& name) {
  return std::filesystem::path(__FILE__).parent_path().parent_path() / "reference" / name;
}

/// As published; without experts, which have their own keys.
const char* const deepseek_v3 = R"({"hidden_size": 7168, "kv_lora_rank": 512, "num_attention_heads": 128,
  "num_key_value_heads": 128, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
  "v_head_dim": 128, "rope_theta": 10000, "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0,
  "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096, "type": "yarn"}})";

llm::LlamaConfig read(const Json& json) {
  llm::LlamaConfig config{.features = 7168, .layers = 1, .heads = 128, .kv_heads = 128, .hidden = 18432};
  const JsonPart part(json);
  llm::detail::read_rope(part, config);
  llm::detail::read_latent(part, config);
  return config.checked();
}
std::string problem(const auto& f) {
  try {
    f();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "accepted";
}

/// The largest difference of two results.
double difference(const auto& found, const auto& expected) {
  return (found - expected).cwiseAbs().maxCoeff();
}

}  // namespace

TEST_CASE("the published sizes of DeepSeek-V3") {
  const Json json = parse_json(deepseek_v3, "published");
  const llm::LlamaConfig config = read(json);
  const Index attention = 7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168;
  CHECK(config.attention_weights() == attention);
  CHECK(config.parameters() ==
        2 * 32000 * 7168 + attention + 1536 + 512 + 3 * 7168 * 18432 + 2 * 7168 + 7168);
  CHECK(config.head_size() == 192);
  const double magnitude = 0.1 * std::log(40.) + 1;
  CHECK(*config.score_scale() == doctest::Approx(magnitude * magnitude / std::sqrt(192.)));
  Recorder recorder;
  llm::Llama<LlamaMesh, SequencePlan> model(LlamaMesh(recorder, {1, 1, 1}), config);
  CHECK(parameter_count(model) == config.parameters());

  Json written;
  llm::detail::write_latent(config, written);
  for (const auto& each : written.items()) {
    const auto& key = each.key();
    CAPTURE(key);
    CHECK(each.value() == (key == "head_dim"          ? Json(64)
                           : key == "rope_interleave" ? Json(true)
                                                      : json.at(key)));
  }
  const Json scaling = llm::detail::rope_scaling_keys(*config.scaling);
  for (const auto& [key, value] : json.at("rope_scaling").items()) {
    CHECK(scaling.at(key == "type" ? "rope_type" : key) == value);
  }
}

TEST_CASE("keys and sizes of latent attention that do not fit") {
  Json json = parse_json(deepseek_v3, "published");
  json["q_lora_rank"] = nullptr;
  CHECK(read(json).latent->q_rank == 0);
  json.erase("q_lora_rank");
  CHECK(problem([&] { read(json); }) == "q_lora_rank: it is missing, expected a number or null");
  json["q_lora_rank"] = 1536;
  json["head_dim"] = 192;
  CHECK(problem([&] { read(json); }) == "head_dim: it is 192, expected 64");
  json.erase("head_dim");
  json["v_head_dim"] = 0;
  CHECK(has(problem([&] { read(json); }), "v_head_dim: it is 0, expected"));
  json["v_head_dim"] = 128;
  json["qk_nope_head_dim"] = std::numeric_limits<Index>::max();
  CHECK(
      has(problem([&] { read(json); }), "qk_nope_head_dim: it is 9223372036854775807, expected an integer"));
  json["qk_nope_head_dim"] = 128;

  llm::LlamaConfig config = read(json);
  config.kv_heads = 64;
  CHECK(problem([&] { config.checked(); }) ==
        "LlamaConfig: with latent attention, kv_heads, 64, must be heads, 128, and qkv_bias and head_norms "
        "false");
  config.kv_heads = 128;
  config.latent->rope_dim = 192;
  CHECK(problem([&] { config.checked(); }) ==
        "LlamaConfig: rope_dim is 192, which must be less than head_dim, 192");
  config.latent->rope_dim = 63;
  CHECK(problem([&] { config.checked(); }) == "LlamaConfig: rotary embeddings need an even rope_dim, not 63");
  config.latent->rope_dim = 0;
  CHECK(problem([&] { config.checked(); }) == "LlamaConfig: rope_dim is 0, which must be 2 or more");
}

namespace {

template <class PlanType>
void check_generation(const llm::LlamaConfig& config) {
  for (const LlamaMesh& mesh : llama_meshes(config)) {
    llm::Llama<LlamaMesh, PlanType, double> model(mesh, config);
    initialize(model, 3);
    std::vector<std::int32_t> tokens;
    for (Index i = 0; i < 3 * 9; ++i) tokens.push_back(static_cast<std::int32_t>(i * 7 % config.vocabulary));
    const auto ids = distribute<Shard<0>, Replicate, Replicate>(mesh, Shape<2>{3, 9}, std::span(tokens));
    const auto whole = full_tensor(model(ids));  // [3 · 9, vocabulary]
    auto cache = model.make_cache(ids, 9);
    for (Index at = 0, count = 4; at < 9; at += std::exchange(count, 1)) {
      const auto next = full_tensor(model.next(narrow<1>(ids, at, count), cache));
      for (Index row = 0; row < 3; ++row) {
        CHECK(difference(next.row(row), whole.row(row * 9 + at + count - 1)) <= 1e-14);
      }
    }
  }
}

}  // namespace

TEST_CASE("generation with a cache gives the logits that the whole sequence gives") {
  for (const char* name : {"deepseek", "deepseek_lite"}) {
    CAPTURE(name);
    const llm::LlamaConfig config = reference_config(reference(name));
    check_generation<TensorPlan>(config);
    check_generation<SequencePlan>(config);
  }
}

TEST_CASE("files come back byte for byte, from every mesh") {
  const ScratchFolder folder;
  for (const std::string name : {"deepseek", "deepseek_lite"}) {
    CAPTURE(name);
    const llm::LlamaConfig config = reference_config(reference(name));
    const Weights before(reference(name) / "model.safetensors");
    const auto tensors = llm::detail::llama_tensors(config);
    CHECK(tensors.size() == before.files().front().tensors().size());
    for (const llm::detail::LlamaTensor& tensor : tensors) {
      CAPTURE(tensor.hugging_name);
      CHECK(before.tensor(tensor.hugging_name).shape == tensor.hugging);
    }
    for (const LlamaMesh& mesh : llama_meshes(config)) {
      llm::Llama<LlamaMesh, SequencePlan> model(mesh, config);
      llm::load_llama(model, reference(name) / "model.safetensors");
      save_weights(model, folder.path() / (name + ".safetensors"),
                   {.name_of = llm::hugging_face_names(config)});
      world().barrier();
      const Weights after(folder.path() / (name + ".safetensors"));
      for (const StoredTensor& tensor : before.files().front().tensors()) {
        CAPTURE(tensor.name);
        const auto bytes_of = [&](const Weights& weights) {
          const auto& file = weights.file_of(tensor.name);
          const std::string all = read_text(file.path());
          return all.substr(static_cast<std::size_t>(weights.tensor(tensor.name).offset),
                            static_cast<std::size_t>(tensor.bytes));
        };
        CHECK(bytes_of(before) == bytes_of(after));
      }
      world().barrier();
    }
  }
}

TEST_CASE("a ring refuses values with another head_dim than keys") {
  const Mesh<cp> mesh(world(), {any});
  const auto of = [&](Index d) { return zeros<double, Shard<1>>(mesh, {1, 8, 2, d}); };
  CHECK(has(problem([&] { RingAttention<cp>()(of(6), of(6), of(4)); }),
            "RingAttention: keys have head_dim 6, and values 4, which must be the same"));
}

namespace {

/// A step of two layers on four ranks.
constexpr llm::LlamaConfig small{
    .vocabulary = 64, .features = 256, .layers = 2, .heads = 8, .kv_heads = 8, .head_dim = 24, .hidden = 64};
template <class PlanType>
constexpr auto step(bool latent, Index q_rank = 48) {
  return trace<Mesh<tp>>({4}, [=](const Mesh<tp>& mesh) {
    llm::LlamaConfig config = small;
    if (latent)
      config.latent = llm::LatentSizes{.q_rank = q_rank, .kv_rank = 32, .rope_dim = 8, .value_dim = 16};
    llm::Llama<Mesh<tp>, PlanType> model(mesh, config);
    Tape tape;
    const auto ids = empty<std::int32_t, Replicate>(mesh, {1, 4});
    const auto loss = model(tape.constant(ids), ids, LinearCrossEntropyLoss());
    tape.backward(loss);
    AdamW adamw;
    adamw.step(model);
  });
}

/// The collectives are those of a Llama, but in attention latents are communicated instead of features: here 48 + 32 +
/// 8 numbers of a token instead of 256.
constexpr Index saved = 2 * 4 * (256 - 88) * 4;  // in two layers, of four tokens
constexpr auto tensor = step<llm::LlamaTensorParallel<>>(true),
               tensor_llama = step<llm::LlamaTensorParallel<>>(false);
static_assert(tensor.count(Collective::all_reduce, Phase::forward) ==
              tensor_llama.count(Collective::all_reduce, Phase::forward));
static_assert(tensor.count(Collective::all_reduce, Phase::backward) ==
              tensor_llama.count(Collective::all_reduce, Phase::backward));
static_assert(tensor_llama.bytes() - tensor.bytes() == saved);
static_assert(tensor.count(Collective::all_reduce, Phase::optimizer) == 0);

/// With sharded sequences, the optimizer also reduces the gradients of the projections to latents and their norms.
constexpr auto sequence = step<llm::LlamaSequenceParallel<>>(true),
               sequence_llama = step<llm::LlamaSequenceParallel<>>(false);
static_assert(sequence.collectives() == sequence_llama.collectives());
static_assert(sequence_llama.bytes(Phase::forward) - sequence.bytes(Phase::forward) == saved);
static_assert(sequence_llama.bytes(Phase::backward) - sequence.bytes(Phase::backward) == saved);
static_assert(sequence.bytes(Phase::optimizer) - sequence_llama.bytes(Phase::optimizer) ==
              2 * 4 * (256 * 88 + 48 + 32));
static_assert(wasted(tensor).empty() && wasted(sequence).empty());

/// Without latents of queries, features are communicated as well.
static_assert(step<llm::LlamaTensorParallel<>>(true, 0).collectives() == tensor.collectives() + 2);
static_assert(step<llm::LlamaSequenceParallel<>>(true, 0).collectives() == sequence.collectives() + 2 * 2);

}  // namespace

}  // namespace shardwise::testing::llama_latent
