// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Sequences of different lengths in the rows of one cache: whichever others are decoded beside it, and in whichever
/// row, a sequence gets the logits that it gets alone, bit for bit.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "llama_support.hpp"

namespace shardwise::testing::llama_rows {
namespace {

using namespace shardwise::llm;

constexpr int sequences = 8;
constexpr Index capacity = 24;

constexpr LlamaConfig grouped{.vocabulary = 61,
                              .features = 52,
                              .layers = 3,
                              .heads = 6,
                              .kv_heads = 6,
                              .head_dim = 10,
                              .hidden = 45,
                              .deviation = 0.3};

std::vector<std::int32_t> prompt_of(int sequence) {
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 1 + (sequence * 5) % 13; ++i) ids.push_back((sequence * 17 + i * i * 3 + i) % 61);
  return ids;
}
/// The number of tokens that follow the prompt, also different.
std::size_t written_by(int sequence) { return static_cast<std::size_t>(3 + sequence * 3 % 7); }

auto batch_of(const LlamaMesh& mesh, std::span<const std::int32_t> ids, Index rows) {
  return distribute<Replicate, Replicate, Replicate>(mesh, Shape<2>{rows, std::ssize(ids) / rows}, ids);
}

/// The logits of each new token of a sequence; the tokens are the most likely ones.
struct Written {
  std::vector<std::vector<float>> logits;
  std::int32_t add(const float* row, Index vocabulary) {
    logits.emplace_back(row, row + vocabulary);
    const auto& last = logits.back();
    return static_cast<std::int32_t>(std::max_element(last.begin(), last.end()) - last.begin());
  }
};

/// Sequences in this order of arrival; each step, one is prefilled if there is a row for it, and all that have a row
/// continue by a token. A row is free again when its sequence ends.
template <class Model>
std::map<int, Written> write(const Model& model, const LlamaMesh& mesh, std::vector<int> waiting,
                             Index rows) {
  std::map<int, Written> result;
  std::map<Index, std::pair<int, std::int32_t>> active;  // the sequence in a row, and its last token
  const std::vector<std::int32_t> nothing(static_cast<std::size_t>(rows));
  auto cache = model.make_cache(batch_of(mesh, nothing, rows), capacity);
  const auto next = [&](std::span<const std::int32_t> ids, std::span<const Index> selected) {
    cache.select(selected);
    const auto logits = redistribute<Replicate, Replicate, Replicate>(
        model.next(batch_of(mesh, ids, std::ssize(selected)), cache));
    const Index vocabulary = logits.shape()[2];
    for (std::size_t i = 0; i < selected.size(); ++i) {
      auto& [sequence, token] = active.at(selected[i]);
      token = result[sequence].add(logits.data() + static_cast<Index>(i) * vocabulary, vocabulary);
      if (result[sequence].logits.size() < written_by(sequence)) continue;
      active.erase(selected[i]);
      cache.clear(selected[i]);
    }
  };
  while (!waiting.empty() || !active.empty()) {
    Index row = rows - 1;
    while (row >= 0 && active.contains(row)) --row;
    if (row >= 0 && !waiting.empty()) {
      const int sequence = waiting.front();
      waiting.erase(waiting.begin());
      active[row] = {sequence, 0};
      next(prompt_of(sequence), std::array{row});
    }
    std::vector<Index> selected;
    std::vector<std::int32_t> ids;
    for (const auto& [at, one] : active) {
      selected.insert(selected.begin(), at);  // not in the order of the rows
      ids.insert(ids.begin(), one.second);
    }
    if (!selected.empty()) next(ids, selected);
  }
  return result;
}

template <class PlanType>
void check_rows(const LlamaConfig& config) {
  for (const LlamaMesh& mesh : llama_meshes(config)) {
    if (mesh.size<dp>() > 1) continue;
    Llama<LlamaMesh, PlanType> model(mesh, config);
    initialize(model, 3);
    std::map<int, Written> alone;
    for (int i = 0; i < sequences; ++i) alone.merge(write(model, mesh, {i}, 1));
    for (const Index rows : {8, 5}) {
      for (const auto& order :
           {std::vector{0, 1, 2, 3, 4, 5, 6, 7}, {7, 6, 5, 4, 3, 2, 1, 0}, {3, 7, 0, 5, 2, 6, 1, 4}}) {
        const auto together = write(model, mesh, order, rows);
        for (int i = 0; i < sequences; ++i) {
          CAPTURE(rows);
          CAPTURE(order.front());
          CAPTURE(i);
          CHECK(together.at(i).logits.size() == written_by(i));
          CHECK(together.at(i).logits == alone.at(i).logits);
        }
      }
    }
  }
}

TEST_CASE("sequences beside others get the logits that they get alone, bit for bit") {
  check_rows<TensorPlan>(grouped);
  check_rows<SequencePlan>(grouped);
}

TEST_CASE("windows and the options of other families beside others") {
  LlamaConfig config = grouped;
  config.window = 5;
  config.qkv_bias = config.head_norms = config.output_norms = true;
  config.scaled_tokens = config.gelu = config.tied = true;
  config.full_every = 2;
  config.window_theta = 100;
  config.attention_softcap = 2;
  config.logit_softcap = 5;
  config.scaling = RopeScaling{.factor = 4, .original_max_position_embeddings = 8};
  check_rows<TensorPlan>(config);
}

TEST_CASE("latent attention beside others") {
  LlamaConfig config = grouped;
  config.latent = LatentSizes{.q_rank = 14, .kv_rank = 11, .rope_dim = 4, .value_dim = 6};
  check_rows<TensorPlan>(config);
  check_rows<SequencePlan>(config);
}

TEST_CASE("experts beside others") {
  LlamaConfig config = grouped;
  config.experts = MixtureOptions{.experts = 7, .hidden = 19, .routing = {.k = 3}, .shared_hidden = 9};
  check_rows<LlamaExpertParallel<TensorPlan, Split>>(config);
}

TEST_CASE("rows that a cache refuses, on every rank, without a change") {
  LlamaConfig config = grouped;
  const LlamaMesh mesh(world(), {1, any, 1});
  Llama<LlamaMesh, TensorPlan> model(mesh, config);
  initialize(model, 3);
  const std::vector<std::int32_t> ids{1, 2, 3, 4};
  auto cache = model.make_cache(batch_of(mesh, ids, 4), 5);
  const auto refusal = [&](std::vector<Index> rows) {
    try {
      cache.select(rows);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  cache.select(std::array<Index, 2>{3, 1});
  CHECK(refusal({0, 4}) == "KeyValueCache: there is no row 4: it has 4");
  CHECK(refusal({-1}) == "KeyValueCache: there is no row -1: it has 4");
  CHECK(refusal({2, 0, 2}) == "KeyValueCache: row 2 is selected twice");
  CHECK(refusal({}) == "KeyValueCache: no row is selected");
  CHECK_THROWS_WITH_AS(cache.clear(4), "KeyValueCache: there is no row 4: it has 4", std::invalid_argument);
  model.next(batch_of(mesh, ids, 2), cache);  // still rows 3 and 1
  CHECK(cache.length(0) == 0);
  CHECK(cache.length(1) == 2);
  CHECK(cache.length(2) == 0);
  CHECK(cache.length(3) == 2);
  cache.select(std::array<Index, 1>{1});
  model.next(batch_of(mesh, std::array{5, 6}, 1), cache);
  cache.select(std::array<Index, 3>{0, 1, 3});
  CHECK_THROWS_WITH_AS(model.next(batch_of(mesh, std::array{1, 2, 3, 4, 5, 6}, 3), cache),
                       "KeyValueCache: 2 more tokens do not fit: row 1 holds 4 of at most 5",
                       std::length_error);
  CHECK_THROWS_AS(model.next(batch_of(mesh, ids, 4), cache),
                  std::invalid_argument);  // three rows are selected
  CHECK(cache.length(0) == 0);
  CHECK(cache.length(1) == 4);
  cache.clear(1);
  CHECK(cache.length(1) == 0);
  CHECK(cache.length(3) == 2);

  if (world().size() == 1) return;
  const LlamaMesh data(world(), {any, 1, 1});
  Llama<LlamaMesh, TensorPlan> other(data, config);
  auto sharded = other.make_cache(
      distribute<Shard<0>, Replicate, Replicate>(data, Shape<2>{4, 1}, std::span<const std::int32_t>(ids)),
      5);
  CHECK_THROWS_WITH_AS(
      sharded.select(std::array<Index, 1>{1}),
      "KeyValueCache: its batch is sharded over several ranks, so all rows belong to each call",
      std::invalid_argument);
}

}  // namespace
}  // namespace shardwise::testing::llama_rows
