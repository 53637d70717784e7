// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A batch of sequences of a model on one mesh: each has the tokens and log-probabilities that the model gives it, also
/// after its weights have changed. generator_test.cpp has stages, and how sequences end.

#include <doctest/doctest.h>
#include <shardwise/llm/decoding/continuous_batch.hpp>
#include <shardwise/nn/cross_entropy_loss.hpp>

#include <map>

#include "llama_support.hpp"

namespace shardwise::testing::continuous_batch {
namespace {

using namespace shardwise::llm;

constexpr LlamaConfig config{
    .vocabulary = 61, .features = 24, .layers = 2, .heads = 4, .kv_heads = 4, .hidden = 30, .deviation = 0.4};

auto batch_of(const LlamaMesh& mesh, std::span<const std::int32_t> ids) {
  return distribute<Replicate, Replicate, Replicate>(mesh, Shape<2>{1, std::ssize(ids)}, ids);
}

GenerationRequest request_of(int number) {
  GenerationRequest request;
  for (int i = 0; i <= number * 3 % 7; ++i) request.prompt.push_back((number * 5 + i) % 61);
  request.seed = static_cast<std::uint64_t>(number);
  request.new_tokens = 2 + number * 3 % 5;
  return request;
}

/// The log-probabilities of tokens that follow a prompt, by the whole model at once.
template <class Model>
std::vector<double> expected_of(const LlamaMesh& mesh, const Model& model, std::vector<std::int32_t> ids,
                                std::size_t prompt) {
  std::vector<std::int32_t> targets(ids.begin() + 1, ids.end());
  ids.pop_back();
  const auto losses = redistribute<Replicate, Replicate, Replicate>(
      CrossEntropyLossPerRow()(model(batch_of(mesh, ids)), batch_of(mesh, targets)));
  std::vector<double> result;
  for (std::size_t i = prompt - 1; i < targets.size(); ++i)
    result.push_back(-static_cast<double>(losses.data()[i]));
  return result;
}

/// The tokens of a request that has the model for itself.
template <class Model>
std::vector<GeneratedToken> alone(const LlamaMesh& mesh, const Model& model,
                                  const GenerationRequest& request) {
  ContinuousBatch batch(mesh, model, 1, 20);
  batch.add(request);
  std::vector<GeneratedToken> tokens;
  while (batch.busy()) tokens.push_back(batch.step().at(0));
  return tokens;
}

/// `add` continues after each step, so sequences begin while others are being generated.
template <class Model>
void check_batch(const LlamaMesh& mesh, const Model& model, ContinuousBatch& batch) {
  constexpr int requests = 12;
  std::map<std::size_t, std::pair<int, std::vector<GeneratedToken>>> found;
  for (int next = 0; next < requests || batch.busy();) {
    for (int i = 0; i < 2 && next < requests; ++i, ++next) found[batch.add(request_of(next))].first = next;
    for (const GeneratedToken& token : batch.step()) found.at(token.request).second.push_back(token);
  }
  for (const auto& [number, one] : found) {
    const GenerationRequest request = request_of(one.first);
    std::vector<std::int32_t> ids = request.prompt;
    for (const GeneratedToken& token : one.second) {
      // Drawn from the logits after the tokens so far.
      const auto whole = redistribute<Replicate, Replicate, Replicate>(model(batch_of(mesh, ids)));
      const auto* const last = whole.data() + (std::ssize(ids) - 1) * config.vocabulary;
      const std::vector<float> logits(last, last + config.vocabulary);
      const auto position = static_cast<std::uint64_t>(ids.size() - request.prompt.size());
      CHECK(token.id == sample(logits, request.sampling, request.seed, position));
      ids.push_back(token.id);
    }
    REQUIRE(std::ssize(one.second) == request.new_tokens);
    CHECK(one.second.back().end == GenerationEnd::length);
    const std::vector<double> expected = expected_of(mesh, model, ids, request.prompt.size());
    const std::vector<GeneratedToken> same = alone(mesh, model, request);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(one.second[i].id == same.at(i).id);
      CHECK(one.second[i].log_probability == same[i].log_probability);
      CHECK(std::abs(one.second[i].log_probability - expected[i]) <= 1e-5);
    }
  }
}

template <class T>
void check_type() {
  for (const LlamaMesh& mesh : llama_meshes(config)) {
    Llama<LlamaMesh, TensorPlan, T> model(mesh, config);
    initialize(model, 3);
    ContinuousBatch batch(mesh, model, 9, 20);
    check_batch(mesh, model, batch);
    initialize(model, 4);
    check_batch(mesh, model, batch);
  }
}

TEST_CASE("each sequence of a batch has the tokens and log-probabilities of the model") {
  check_type<float>();
  check_type<double>();
}

TEST_CASE("requests that do not fit are refused, a sequence without finite logits ends alone") {
  const LlamaMesh mesh(world(), {1, 1, any});
  Llama<LlamaMesh, TensorPlan> model(mesh, config);
  initialize(model, 3);
  ContinuousBatch batch(mesh, model, 2, 8);
  CHECK_THROWS_WITH_AS(batch.add({.prompt = {1, 2}, .new_tokens = 7}),
                       "2 tokens of the prompt and 7 new ones are more than the 8 for which a row has room",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(batch.add({.prompt = {61}, .new_tokens = 1}),
                       "the prompt has token 61, but those of the model are 0 to 60", std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      ContinuousBatch(
          std::make_unique<llm::detail::DecodingModelOf<decltype(model), LlamaMesh>>(mesh, model, 2, 8),
          {61, {5, 3, 7}}),
      "ContinuousBatch: the known ids end with 61, expected 1 to 61, and ascending holes below that",
      std::invalid_argument);
  CHECK_FALSE(batch.busy());
  batch.add({.prompt = {1}, .sampling = {.temperature = 0}, .new_tokens = 2});
  const std::int32_t id = batch.step().at(0).id;
  for_each_named_parameter(model, [&](std::string_view name, auto& parameter) {
    if (name != "tokens.weight") return;
    const auto block = parameter.writable();  // one row of the table, on the rank that has it
    for (Index row = 0; row < block.size[0]; ++row) {
      for (Index i = 0; block.begin[0] + row == 5 && i < block.size[1]; ++i)
        block.data[row * block.size[1] + i] = std::numeric_limits<float>::quiet_NaN();
    }
  });
  const std::size_t failing = batch.add({.prompt = {5}, .new_tokens = 2});
  const auto tokens = batch.step();
  REQUIRE(tokens.size() == 2);
  CHECK(tokens[0].end == (id == 5 ? GenerationEnd::failed : GenerationEnd::length));
  CHECK(tokens[1].request == failing);
  CHECK(tokens[1].end == GenerationEnd::failed);
  CHECK(tokens[1].problem == "the model's logits after 1 tokens are not finite");
  CHECK_FALSE(batch.busy());
}

}  // namespace
}  // namespace shardwise::testing::continuous_batch
