// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Llama on every mesh of data, tensor and key/value axes, tensor and sequence parallel: one rank alone and all
/// together train the same model, with the collectives that the plan foresees.

#include <shardwise/nn/cross_entropy_loss.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/clip.hpp>
#include <support/plans.hpp>

#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "llama_support.hpp"

namespace sw = shardwise;
using namespace sw::testing;
using sw::Collective;
using sw::dp;
using sw::Index;
using sw::kvr;
using sw::Replicate;
using sw::Shard;
using sw::tp;
using sw::llm::LlamaConfig;

namespace {

constexpr int steps = 5;
constexpr Index batch = 5, length = 7;  // neither is divided by the ranks

constexpr LlamaConfig grouped{
    .vocabulary = 13, .features = 12, .layers = 2, .heads = 6, .kv_heads = 2, .head_dim = 4, .hidden = 10};
/// Heads that most meshes cannot share out evenly, and a head that is the table.
constexpr LlamaConfig uneven{
    .vocabulary = 13, .features = 10, .layers = 1, .heads = 5, .kv_heads = 5, .hidden = 9, .tied = true};

template <class MeshType>
using Ids = sw::Tensor<std::int32_t, 2, MeshType, Shard<0>, Replicate, Replicate>;

/// Tokens of a step, from a place in each sequence on.
template <class MeshType>
Ids<MeshType> tokens(const MeshType& mesh, int step, Index first) {
  std::vector<std::int32_t> all;
  for (Index s = 0; s < batch; ++s) {
    for (Index t = first; t < first + length; ++t) {
      all.push_back(static_cast<std::int32_t>((s * 3 + t * (2 + s % 2) + step) % 13));
    }
  }
  return sw::distribute<Shard<0>, Replicate, Replicate>(mesh, sw::Shape<2>{batch, length},
                                                        std::span<const std::int32_t>(all));
}

template <class Model, class MeshType>
auto train_step(Model& model, sw::AdamW& optimizer, const MeshType& mesh, int step) {
  sw::Tape tape;
  auto loss = sw::CrossEntropyLoss()(model(tape.constant(tokens(mesh, step, 0))), tokens(mesh, step, 1));
  tape.backward(loss);
  sw::clip_gradients(model, 0.5);
  optimizer.step(model);
  return loss.value();
}

/// Trains a Llama; fit for `agreed_plan`.
template <class PlanType>
struct Training {
  LlamaConfig config;
  std::vector<double>* losses;
  std::function<std::vector<double>()>* weights;  ///< of the trained model; collective

  template <class MeshType>
  void operator()(const MeshType& mesh) const {
    const auto held = std::make_shared<sw::llm::Llama<MeshType, PlanType>>(mesh, config);
    auto& model = *held;
    sw::initialize(model, 3);
    sw::AdamW optimizer({.rate = 1e-2});
    for (int step = 0; step < steps; ++step) {
      const auto loss = train_step(model, optimizer, mesh, step);
      if (!mesh.dry()) losses->push_back(static_cast<double>(sw::item(loss)));
    }
    if (!mesh.dry()) *weights = [held] { return weights_of(*held); };
  }
};

struct Trained {
  std::vector<double> losses, weights;
};

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(a[i] - b[i]);
    largest = std::isfinite(d) ? std::max(largest, d) : std::numeric_limits<double>::infinity();
  }
  return largest;
}

template <class PlanType>
Trained trained_alone(const LlamaConfig& config) {
  Trained result;
  std::function<std::vector<double>()> weights;
  Training<PlanType>{config, &result.losses, &weights}(llama_alone());
  result.weights = weights();
  return result;
}

/// Trains on a mesh, holds the model against one that was trained alone, and returns the plan.
template <class PlanType>
auto check_training(const LlamaMesh& mesh, const LlamaConfig& config, const Trained& expected) {
  std::vector<double> losses;
  std::function<std::vector<double>()> weights;
  const auto plan = agreed_plan(mesh, Training<PlanType>{config, &losses, &weights});
  CHECK(largest_difference(losses, expected.losses) < 1e-5);
  CHECK(largest_difference(weights(), expected.weights) < 1e-4);  // of numbers up to 1
  return plan;
}

/// The all-reduces of gradients: those that are terms along the same axes go together.
std::size_t buckets(const LlamaMesh& mesh, bool sequence_parallel) {
  const bool data = mesh.size<dp>() > 1, tensor = mesh.size<tp>() > 1, replicas = mesh.size<kvr>() > 1;
  std::set<std::array<bool, 3>> sums{{data, false, false}, {data, false, replicas}};
  if (sequence_parallel) sums.insert({data, tensor, replicas});
  sums.erase({false, false, false});
  return sums.size();
}

std::string times(Index forward, Index backward, Index optimizer) {
  return std::to_string(forward * steps) + " / " + std::to_string(backward * steps) + " / " +
         std::to_string(optimizer * steps);
}

std::string text(const LlamaMesh& mesh) {
  return "dp " + std::to_string(mesh.size<dp>()) + " tp " + std::to_string(mesh.size<tp>()) + " kvr " +
         std::to_string(mesh.size<kvr>());
}

void check_everywhere(const LlamaConfig& config) {
  const Trained expected = trained_alone<TensorPlan>(config);
  CHECK(expected.losses.back() < expected.losses.front());
  for (const LlamaMesh& mesh : llama_meshes(config)) {
    INFO(text(mesh));
    const Index split = mesh.size<tp>() * mesh.size<kvr>() > 1 ? 1 : 0, data = mesh.size<dp>() > 1 ? 1 : 0;
    const Index clip = mesh.size() > 1 ? 1 : 0, sums = 2 * config.layers + 1;
    const auto tensor = check_training<TensorPlan>(mesh, config, expected);
    CHECK(calls(tensor, Collective::all_reduce) ==
          times((sums + 1) * split + data, sums * split, static_cast<Index>(buckets(mesh, false)) + clip));
    CHECK(tensor.collectives() == tensor.count(Collective::all_reduce));

    const auto sequence = check_training<SequencePlan>(mesh, config, expected);
    CHECK(calls(sequence, Collective::reduce_scatter) == times(sums * split, sums * split, 0));
    CHECK(calls(sequence, Collective::all_gather) == times(sums * split, sums * split, 0));
    CHECK(calls(sequence, Collective::all_reduce) ==
          times(split + data, 0, static_cast<Index>(buckets(mesh, true)) + clip));
    CHECK(sequence.count(Collective::all_to_all) == 0);
  }
}

}  // namespace

TEST_CASE("grouped heads: the same model, and the collectives of its plan, on every mesh") {
  check_everywhere(grouped);
}

TEST_CASE("heads that the ranks do not divide, and a tied head") { check_everywhere(uneven); }

TEST_CASE("heads that are gathered behind their projections need not be shared out") {
  using sw::ColwiseParallel, sw::RowwiseParallel, sw::NoParallel, sw::Use;
  using Gathered = ColwiseParallel<tp, sw::output<Replicate>>;
  using GatheredPlan =
      sw::Plan<Use<"tokens", RowwiseParallel<tp>>, Use<"layers.*.attention_norm", NoParallel>,
               Use<"layers.*.attention.wq", Gathered>, Use<"layers.*.attention.wk", Gathered>,
               Use<"layers.*.attention.wv", Gathered>, Use<"layers.*.attention.wo", RowwiseParallel<tp>>,
               Use<"layers.*.mlp_norm", NoParallel>, Use<"layers.*.mlp.gate", ColwiseParallel<tp>>,
               Use<"layers.*.mlp.up", ColwiseParallel<tp>>, Use<"layers.*.mlp.down", RowwiseParallel<tp>>,
               Use<"norm", NoParallel>, Use<"head", ColwiseParallel<tp>>>;
  check_training<GatheredPlan>(LlamaMesh(sw::world(), {1, sw::any, 1}), grouped,
                               trained_alone<TensorPlan>(grouped));
}

TEST_CASE("a tied head is no parameter of its own") {
  const LlamaMesh mesh = llama_alone();
  sw::llm::Llama<LlamaMesh, TensorPlan> model(mesh, uneven);
  CHECK_FALSE(model.head.has_value());
  LlamaConfig untied = uneven;
  untied.tied = false;
  sw::llm::Llama<LlamaMesh, TensorPlan> other(mesh, untied);
  CHECK(sw::parameter_count(other) - sw::parameter_count(model) == 13 * 10);
}

TEST_CASE("the modules that plans may name are those that a model visits") {
  sw::llm::LlamaConfig config = grouped;
  config.experts = sw::MixtureOptions{.experts = 3, .hidden = 5};
  config.dense_layers = 1;
  sw::llm::Llama<LlamaMesh, sw::llm::LlamaExpertParallel<TensorPlan, tp>> model(llama_alone(), config);
  std::set<std::string> visited;
  auto walk = [&](auto& self, auto& module, const std::string& path) -> void {
    using Module = std::remove_cvref_t<decltype(module)>;
    if constexpr (requires { module.begin(); }) {
      for (auto& element : module) self(self, element, path + ".*");
    } else if constexpr (!sw::is_parameter<Module>) {
      if (!path.empty()) visited.insert(path);
      module.visit([&](const char* name, auto& child) {
        self(self, child, path.empty() ? std::string(name) : path + "." + name);
      });
    }
  };
  walk(walk, model, "");
  std::set<std::string> named;
  for (const sw::ModuleName& module : sw::llm::llama_modules) named.insert(std::string(module.name));
  CHECK(named.size() == sw::llm::llama_modules.size());
  CHECK(visited == named);
}

namespace {

/// The first of the greatest logits of each sequence's last token.
template <class Logits>
std::vector<std::int32_t> likeliest(const Logits& logits) {
  const auto all = sw::redistribute<Replicate, Replicate, Replicate>(logits);
  const Index sequences = all.shape()[0], tokens = all.shape()[1], vocabulary = all.shape()[2];
  std::vector<std::int32_t> ids;
  for (Index s = 0; s < sequences; ++s) {
    const float* row = all.data() + (s * tokens + tokens - 1) * vocabulary;
    ids.push_back(static_cast<std::int32_t>(std::max_element(row, row + vocabulary) - row));
  }
  return ids;
}

/// Continues three sequences by `count` tokens: with a cache, or with all of the sequence each time.
template <class PlanType>
std::vector<std::int32_t> continued(const LlamaMesh& mesh, const LlamaConfig& config, int count,
                                    bool cached) {
  constexpr Index sequences = 3;
  sw::llm::Llama<LlamaMesh, PlanType> model(mesh, config);
  sw::initialize(model, 7);
  std::vector<std::int32_t> ids{1, 2, 3, 4, 5, 6};  // two tokens of each, then one at a time
  auto sharded = [&](const std::vector<std::int32_t>& values) {
    const Index tokens = static_cast<Index>(values.size()) / sequences;
    return sw::distribute<Shard<0>, Replicate, Replicate>(mesh, sw::Shape<2>{sequences, tokens},
                                                          std::span<const std::int32_t>(values));
  };
  auto cache = model.make_cache(sharded(ids), count + 1);
  std::vector<std::int32_t> latest = ids, written;
  for (int i = 0; i < count; ++i) {
    latest = cached ? likeliest(model.next(sharded(latest), cache)) : likeliest(model(sharded(ids)));
    written.insert(written.end(), latest.begin(), latest.end());
    std::vector<std::int32_t> longer;
    const auto tokens = static_cast<std::ptrdiff_t>(ids.size()) / sequences;
    for (std::ptrdiff_t s = 0; s < sequences; ++s) {
      longer.insert(longer.end(), ids.begin() + s * tokens, ids.begin() + (s + 1) * tokens);
      longer.push_back(latest[static_cast<std::size_t>(s)]);
    }
    ids = longer;
  }
  return written;
}

}  // namespace

TEST_CASE("greedy text of 20 tokens is the same with a cache and without, on every mesh") {
  LlamaConfig llama = grouped;
  llama.deviation = 0.6;
  llama.scaling = sw::llm::RopeScaling{.factor = 4, .original_max_position_embeddings = 8};
  LlamaConfig every_option = llama;
  every_option.window = 5;
  every_option.qkv_bias = every_option.head_norms = every_option.output_norms = true;
  every_option.scaled_tokens = every_option.gelu = true;
  every_option.norm_offset = 1;
  every_option.full_every = 2;
  every_option.window_theta = 100;
  every_option.query_scalar = 3;
  every_option.attention_softcap = 2;
  every_option.logit_softcap = 5;
  for (const LlamaConfig& config : {llama, every_option}) {
    const auto expected = continued<TensorPlan>(llama_alone(), config, 20, false);
    CHECK(std::set<std::int32_t>(expected.begin(), expected.end()).size() > 4);  // it says something
    for (const LlamaMesh& mesh : llama_meshes(config)) {
      INFO(text(mesh));
      CHECK(continued<TensorPlan>(mesh, config, 20, true) == expected);
      CHECK(continued<TensorPlan>(mesh, config, 20, false) == expected);
      CHECK(continued<SequencePlan>(mesh, config, 20, true) == expected);
      CHECK(continued<SequencePlan>(mesh, config, 20, false) == expected);
    }
  }
}

TEST_CASE("a cache takes no more than it has room for, and stays as it is") {
  const auto meshes = llama_meshes(grouped);
  const LlamaMesh& mesh = meshes.back();
  sw::llm::Llama<LlamaMesh, TensorPlan> model(mesh, grouped);
  sw::initialize(model, 7);
  auto ids = sw::zeros<std::int32_t, Shard<0>, Replicate, Replicate>(mesh, {3, 4});
  auto cache = model.make_cache(ids, 6);
  CHECK(cache.capacity() == 6);
  model.next(ids, cache);
  CHECK_THROWS_WITH_AS(model.next(ids, cache),
                       "KeyValueCache: 4 more tokens do not fit: row 0 holds 4 of at most 6",
                       std::length_error);
  CHECK(cache.length() == 4);
  const auto two = sw::zeros<std::int32_t, Shard<0>, Replicate, Replicate>(mesh, {3, 2});
  const auto logits = model.next(two, cache);
  CHECK(logits.shape() == sw::Shape<3>{3, 1, 13});
  CHECK(cache.length() == 6);

  CHECK_THROWS_WITH_AS(
      model.next(sw::zeros<std::int32_t, Shard<0>, Replicate, Replicate>(mesh, {3, 0}), cache),
      "Llama: there are no tokens to continue from", std::invalid_argument);
  LlamaConfig deeper = grouped;
  deeper.layers = 3;
  sw::llm::Llama<LlamaMesh, TensorPlan> other(mesh, deeper);
  CHECK_THROWS_WITH_AS(other.next(two, cache), doctest::Contains("a model with 2 layers"),
                       std::invalid_argument);
  cache.clear();
  CHECK(cache.length() == 0);
}

TEST_CASE("configurations that are no models, or do not fit on the mesh") {
  using Model = sw::llm::Llama<LlamaMesh, TensorPlan>;
  const LlamaMesh whole(sw::world(), {1, sw::any, 1});
  auto message = [&](const LlamaMesh& mesh, auto change) {
    LlamaConfig config = grouped;
    change(config);
    try {
      const Model model(mesh, config);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  using Config = LlamaConfig;
  CHECK(message(whole, [](Config& c) { c.vocabulary = -1; }) ==
        "LlamaConfig: vocabulary is -1, which must be 1 or more");
  CHECK(message(whole, [](Config& c) { c.layers = -2; }) ==
        "LlamaConfig: layers is -2, which must be 1 or more");
  CHECK(message(whole, [](Config& c) { c.heads = 0; }) == "LlamaConfig: heads is 0, which must be 1 or more");
  CHECK(message(whole, [](Config& c) { c.head_dim = -4; }) ==
        "LlamaConfig: head_dim is -4, which must be 0 or more");
  CHECK(message(whole, [](Config& c) { c.kv_heads = 4; }) ==
        "LlamaConfig: 6 heads are not a multiple of 4 key/value heads");
  CHECK(message(whole, [](Config& c) { c.head_dim = 3; }) ==
        "LlamaConfig: rotary embeddings need an even head_dim, not 3");
  CHECK(message(whole, [](Config& c) { c.head_dim = 0, c.features = 16; }) ==
        "LlamaConfig: 16 features are not a multiple of 6 heads");

  const int ranks = sw::world().size();
  if (ranks > grouped.heads) return;
  CHECK(message(whole, [](Config& c) { c.kv_heads = 6, c.lora = {.rank = 4, .alpha = 8}; }) ==
        "LlamaConfig: lora has the rank 4 and the alpha 8, but the plan has no adapters: give it Lora, as "
        "LlamaAdapted does, or leave lora out");
  if (ranks == 1) return;
  const std::string few = std::to_string(ranks - 1), all = std::to_string(ranks);
  CHECK(message(whole, [&](Config& c) { c.heads = c.kv_heads = ranks - 1; }) ==
        "Attention: " + few + " heads cannot be shared by the " + all +
            " ranks of axis tp x kvr: a head is not split, so use at most " + few + " ranks");
  CHECK(message(whole, [](Config& c) {
          c.kv_heads = 1;
        }).find("6 heads and 1 key/value heads do not fit on tp") != std::string::npos);
}

TEST_CASE("a head cannot be tied to a table that lies otherwise") {
  using Otherwise =
      sw::Plan<sw::Use<"tokens", sw::ColwiseParallel<tp, sw::output<Replicate>>>,
               sw::Use<"layers.*.attention_norm", sw::NoParallel>,
               sw::Use<"layers.*.mlp_norm", sw::NoParallel>, sw::Use<"layers.*.*.*", sw::NoParallel>,
               sw::Use<"norm", sw::NoParallel>, sw::Use<"head", sw::ColwiseParallel<tp>>>;
  using Model = sw::llm::Llama<LlamaMesh, Otherwise>;
  const LlamaMesh mesh(sw::world(), {1, sw::any, 1});
  CHECK_NOTHROW(Model(mesh, grouped));
  CHECK_THROWS_WITH_AS(
      Model(mesh, uneven),
      "Llama: the plan gives \"tokens\" and \"head\" different layouts, so they cannot be tied",
      std::invalid_argument);
}

TEST_CASE("a steady training step takes nothing from the system" * doctest::test_suite("MPI")) {
  for (const LlamaMesh& mesh : llama_meshes(grouped)) {
    INFO(text(mesh));
    sw::llm::Llama<LlamaMesh, SequencePlan> model(mesh, grouped);
    sw::initialize(model, 3);
    sw::AdamW optimizer;
    auto steps_of_round = [&] {
      for (int step = 0; step < 10; ++step) {
        train_step(model, optimizer, mesh, step);
        sw::world().barrier();
      }
    };
    auto heap = [] {
      const auto info = mallinfo2();
      return info.arena + info.hblkhd;
    };
    steps_of_round();
    const Index pool = sw::memory_pool().system_bytes();
    std::size_t least = ~std::size_t{0};  // MPI may take memory of its own, but not in every round
    for (int round = 0; round < 5; ++round) {
      const std::size_t before = heap();
      steps_of_round();
      least = std::min(least, heap() - before);
    }
    CHECK(sw::memory_pool().system_bytes() == pool);
    CHECK(least == 0);
  }
}

namespace {

// Two rows of documents: of 4 and 3 tokens and 2 of padding; of 2 and 7.
constexpr Index packed_rows = 2, packed_length = 9;
constexpr std::int32_t document_numbers[] = {0, 0, 0, 0, 1, 1, 1, -1, -1, 0, 0, 5, 5, 5, 5, 5, 5, 5};
struct Piece {
  Index row, first, size;
};
constexpr Piece pieces[] = {{0, 0, 4}, {0, 4, 3}, {1, 0, 2}, {1, 2, 7}};

/// Tokens number `shift` and on of a part of a row; padding is to be ignored.
template <class MeshType>
Ids<MeshType> packed(const MeshType& mesh, Index shift, const Piece* piece) {
  std::vector<std::int32_t> all;
  for (Index i = 0; i < packed_rows * packed_length; ++i) {
    const Index row = i / packed_length, t = i % packed_length;
    if (piece && (row != piece->row || t < piece->first || t >= piece->first + piece->size)) continue;
    const bool padding = document_numbers[i] < 0;
    all.push_back(padding ? (shift > 0 ? -100 : 0)
                          : static_cast<std::int32_t>((5 * row + 3 * t + shift) % 13));
  }
  const sw::Shape<2> shape{piece ? 1 : packed_rows, piece ? piece->size : packed_length};
  return sw::distribute<Shard<0>, Replicate, Replicate>(mesh, shape, std::span<const std::int32_t>(all));
}

/// The gradients of all parameters, whole, behind one another.
std::vector<double> gradients_of(auto& model) {
  std::vector<double> values;
  sw::for_each_parameter(model, [&](auto& parameter) {
    const auto whole = sw::full_tensor(parameter.gradient());
    values.insert(values.end(), whole.data(), whole.data() + whole.size());
  });
  return values;
}

template <class PlanType>
void check_documents(const LlamaConfig& config) {
  using Model = sw::llm::Llama<LlamaMesh, PlanType, double>;
  const LlamaMesh self = llama_alone();
  Model alone(self, config);
  sw::initialize(alone, 3);
  sw::RowMajorMatrix<double> expected = sw::RowMajorMatrix<double>::Zero(packed_rows * packed_length, 13);
  for (const Piece& piece : pieces) {  // each document by itself
    sw::Tape tape;
    auto logits = alone(tape.constant(packed(self, 0, &piece)));
    expected.middleRows(piece.row * packed_length + piece.first, piece.size) =
        sw::full_tensor(logits.value());
    tape.backward(sw::scale(sw::CrossEntropyLoss()(logits, packed(self, 1, &piece)),
                            static_cast<double>(piece.size) / 16));
  }
  const auto gradients = gradients_of(alone);
  for (const LlamaMesh& mesh : llama_meshes(config)) {
    INFO(text(mesh));
    const auto ids = packed(mesh, 0, nullptr), targets = packed(mesh, 1, nullptr);
    const auto documents = sw::distribute<Shard<0>, Replicate, Replicate>(
        mesh, sw::Shape<2>{packed_rows, packed_length}, std::span<const std::int32_t>(document_numbers));
    for (const bool again : {false, true}) {
      Model model(mesh, config);
      sw::initialize(model, 3);
      model.recompute_layers = again;
      sw::Tape tape;
      auto logits = model(tape.constant(ids), documents);
      const auto loss = sw::CrossEntropyLoss()(logits, targets);
      tape.backward(loss);
      auto found = sw::full_tensor(logits.value());
      found.middleRows(7, 2).setZero();  // padding
      CHECK((found - expected).cwiseAbs().maxCoeff() <= 1e-12);
      CHECK(largest_difference(gradients_of(model), gradients) <= 1e-12);
      const auto at_once = model(ids, documents, targets, sw::LinearCrossEntropyLoss());
      CHECK(std::abs(sw::item(at_once) - sw::item(loss)) <= 1e-13);
    }
  }
}

}  // namespace

TEST_CASE("documents packed in rows are what each is alone") {
  check_documents<TensorPlan>(grouped);
  check_documents<SequencePlan>(uneven);
  LlamaConfig narrow = grouped;
  narrow.window = 3;
  check_documents<SequencePlan>(narrow);
}

TEST_CASE("a window: a token is predicted from the tokens in it, in a cache too") {
  sw::llm::LlamaConfig config = grouped;
  config.layers = 1;
  config.window = 3;
  for (const LlamaMesh& mesh : llama_meshes(config)) {
    INFO(text(mesh));
    sw::llm::Llama<LlamaMesh, TensorPlan, double> model(mesh, config);
    sw::initialize(model, 3);
    const Piece all{1, 0, 9}, last{1, 6, 3}, before{1, 0, 6};
    const auto of = [&](const Piece& piece) { return packed(mesh, 0, &piece); };
    const auto whole = sw::full_tensor(model(of(all)));
    const Eigen::RowVectorXd expected = whole.row(8);
    CHECK((sw::full_tensor(model(of(last))).row(2) - expected).cwiseAbs().maxCoeff() <= 1e-14);
    CHECK((sw::full_tensor(model(of({1, 5, 4}))).row(2) - whole.row(7)).cwiseAbs().maxCoeff() <= 1e-14);
    auto cache = model.make_cache(of(all), 9);
    model.next(of(before), cache);
    CHECK((sw::full_tensor(model.next(of(last), cache)).row(0) - expected).cwiseAbs().maxCoeff() <= 1e-14);
  }
}
