// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A fully sharded model, and one with sharded state, are the same model in a file, and write the same text.

#include <doctest/doctest.h>
#include <shardwise/llm/models/llama/files.hpp>
#include <shardwise/nn/cross_entropy_loss.hpp>
#include <shardwise/train/adamw.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "llama_support.hpp"
#include "scratch_folder.hpp"

namespace shardwise::testing {
namespace {

using namespace shardwise::llm;

/// Features and vocabulary are divided by no number of ranks; some blocks are empty on 4.
constexpr LlamaConfig config_of(bool tied) {
  return {.vocabulary = 23,
          .features = 10,
          .layers = 2,
          .heads = 6,
          .kv_heads = 2,
          .head_dim = 2,
          .hidden = 3,
          .tied = tied,
          .deviation = 0.5};
}

template <class PlanType>
using Model = Llama<LlamaMesh, PlanType, float>;
template <int Level>
using AtLevel = PlanWith<TensorPlan, Zero<Level, dp>>;
using SequenceSharded = PlanWith<SequencePlan, FullyShard<dp>>;

/// Saves `from` in both forms, and loads each into `To`s on one rank and on all meshes. A file does not say which mesh
/// wrote it: so of many ranks' many meshes each reads what the one before it in the list wrote.
template <class To, class From>
void check_loads(From& from, const std::vector<double>& expected, const ScratchFolder& folder,
                 const LlamaConfig& config) {
  auto loads = [&](const LlamaMesh& mesh) {
    To a(mesh, config), b(mesh, config);
    initialize(a, 77);
    load_weights(a, folder / "weights");
    load_llama(b, folder / "llama");
    CHECK(weights_of(a) == expected);
    CHECK(weights_of(b) == expected);
  };
  save_weights(from, folder / "weights");
  save_llama(from, folder / "llama");
  const std::vector<LlamaMesh> meshes = llama_meshes(config);
  for (std::size_t i = 0; i < meshes.size(); ++i) {
    const LlamaMesh& before = meshes[(i + meshes.size() - 1) % meshes.size()];
    if (world().size() <= 7 || before.sizes() == from.norm->weight.mesh().sizes()) loads(meshes[i]);
  }
  loads(llama_alone());
}

/// The rank's part of `rows` × `columns` ids.
auto ids_on(const LlamaMesh& mesh, const std::vector<std::int32_t>& ids, Index rows) {
  return distribute<Shard<0>, Replicate, Replicate>(
      mesh, Shape<2>{rows, static_cast<Index>(ids.size()) / rows}, std::span<const std::int32_t>(ids));
}

/// The likeliest next tokens of 3 prompts, 8 times, with a cache.
template <class ModelType>
std::vector<std::int32_t> text_of(const ModelType& model, const LlamaMesh& mesh) {
  constexpr Index rows = 3, length = 4, more = 8, vocabulary = 23;
  std::vector<std::int32_t> next, text;
  for (Index i = 0; i < rows * length; ++i)
    next.push_back(static_cast<std::int32_t>((i * i + 5) % vocabulary));
  auto cache = model.make_cache(ids_on(mesh, next, rows), length + more);
  for (Index step = 0; step < more; ++step) {
    const auto logits = full_tensor(model.next(ids_on(mesh, next, rows), cache));
    next.clear();
    for (Index row = 0; row < rows; ++row) {
      const float* first = logits.data() + row * vocabulary;
      next.push_back(static_cast<std::int32_t>(std::max_element(first, first + vocabulary) - first));
    }
    text.insert(text.end(), next.begin(), next.end());
  }
  return text;
}

template <class ModelType>
void train(ModelType& model, const LlamaMesh& mesh) {
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 5 * 6; ++i) ids.push_back(i * 7 % 23);
  const auto batch = ids_on(mesh, ids, 5);
  AdamW adamw({.rate = 0.05});
  for (int step = 0; step < 3; ++step) {
    Tape tape;
    auto loss = CrossEntropyLoss()(model(tape.constant(batch)), batch);
    backward_and_reduce(loss, model);
    adamw.step(model);
  }
}

}  // namespace

TEST_CASE("saved sharded, loaded whole; and the reverse; every bit") {
  for (bool tied : {false, true}) {
    const LlamaConfig config = config_of(tied);
    const ScratchFolder folder;
    for (const LlamaMesh& mesh : llama_meshes(config)) {
      INFO("tied ", tied, " dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), " kvr ", mesh.size<kvr>());
      Model<AtLevel<3>> sharded(mesh, config);
      initialize(sharded, 3);
      train(sharded, mesh);
      const auto values = weights_of(sharded);
      CHECK(values.size() == static_cast<std::size_t>(parameter_count(sharded)));
      check_loads<Model<TensorPlan>>(sharded, values, folder, config);
      const std::string written = bytes_of_file(folder / "llama" / "model.safetensors");
      check_loads<Model<SequenceSharded>>(sharded, values, folder, config);
      check_loads<Model<AtLevel<1>>>(sharded, values, folder, config);

      Model<TensorPlan> whole(mesh, config);
      load_llama(whole, folder / "llama");
      check_loads<Model<AtLevel<3>>>(whole, values, folder, config);
      CHECK(bytes_of_file(folder / "llama" / "model.safetensors") == written);

      Model<AtLevel<1>> state(mesh, config);
      initialize(state, 3);
      train(state, mesh);
      check_loads<Model<AtLevel<3>>>(state, weights_of(state), folder, config);
    }
  }
}

TEST_CASE("generation with a cache: the same tokens, fully sharded or not") {
  for (bool tied : {false, true}) {
    const LlamaConfig config = config_of(tied);
    const LlamaMesh own = llama_alone();
    Model<TensorPlan> alone(own, config);
    initialize(alone, 3);
    const auto expected = text_of(alone, own);
    CHECK(*std::min_element(expected.begin(), expected.end()) <
          *std::max_element(expected.begin(), expected.end()));
    for (const LlamaMesh& mesh : llama_meshes(config)) {
      INFO("tied ", tied, " dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), " kvr ", mesh.size<kvr>());
      Model<AtLevel<3>> sharded(mesh, config);
      Model<AtLevel<2>> gradients(mesh, config);
      initialize(sharded, 3);
      initialize(gradients, 3);
      Recording recording(mesh);
      CHECK(text_of(sharded, mesh) == expected);
      CHECK(mesh.recorder()->record().memory[static_cast<std::size_t>(MemoryUse::gathered)].live == 0);
      CHECK(text_of(gradients, mesh) == expected);
      // Between training steps too.
      train(sharded, mesh);
      Model<AtLevel<3>> other(mesh, config);
      initialize(other, 3);
      CHECK(text_of(other, mesh) == expected);
      train(other, mesh);
      CHECK(text_of(other, mesh) == text_of(sharded, mesh));
    }
  }
}

}  // namespace shardwise::testing
