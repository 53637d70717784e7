// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Slices of a Llama's layers with weights of 8 bits; and those that do not fit the number of layers.

#include <doctest/doctest.h>
#include <shardwise/llm/decoding/quantized.hpp>
#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/shardwise.hpp>

#include "ids_on.hpp"
#include "outcome.hpp"

namespace shardwise::testing {
namespace {

using Grid = Mesh<dp, tp>;
using All = llm::LlamaTensorParallel<>;

// ---- Other weights -------------------------------------------------------------------------------------------------

TEST_CASE("the layers between the first and the last have weights of 8 bits") {
  using Some = PlanWith<All, llm::Quantized<llm::Block8>, "layers.[1:-1].mlp.*">;
  using Model = llm::Llama<Grid, Some>;
  static_assert(std::is_same_v<Model::Layer::Mlp::Down::Element, float>);
  static_assert(std::is_same_v<Model::LayerAt<1>::Mlp::Down::Element, llm::Block8>);
  const Grid mesh(world(), {any, 1});
  const llm::LlamaConfig config{
      .vocabulary = 23, .features = 32, .layers = 4, .heads = 4, .kv_heads = 4, .hidden = 64};
  Model model(mesh, config);
  initialize(model, 5);
  llm::Llama<Grid, All> floats(mesh, config);
  initialize(floats, 5);
  const auto ids = ids_on(mesh, 0);
  const Numbers right = whole(floats(ids)), found = whole(model(ids));
  CHECK(found != right);
  CHECK(error(found, right) < 1e-2);
  auto cache = model.make_cache(ids, 6);  // with keys of one layout, in layers of two types
  CHECK(error(whole(model.next(ids, cache)), whole(narrow<1>(model(ids), 5, 1))) < 1e-5);
}

// ---- Refused -------------------------------------------------------------------------------------------------------

TEST_CASE("slices that do not fit the number of layers are refused, with their names") {
  const Grid mesh(world(), {any, 1});
  const auto problem_with = [&]<class PlanType>(PlanType, Index layers, std::optional<Index> n = {},
                                                LoraSize lora = {}) {
    try {
      llm::Llama<Grid, PlanType>(
          mesh, {.features = 16, .layers = layers, .heads = 4, .kv_heads = 4, .lora = lora, .n = n});
    } catch (const std::invalid_argument& problem) {
      return std::string(problem.what());
    }
    return std::string("no error");
  };
  using FirstFrozen = PlanWith<All, Frozen, "tokens", "layers.[:n]">;
  using Ends = PlanWith<PlanWith<All, Frozen, "layers.[:2]">, Frozen, "layers.[-2:].mlp.up">;
  CHECK(problem_with(Ends(), 4) == "no error");
  CHECK(problem_with(Ends(), 1) ==
        "the plan names \"layers.[:2]\", from 0 to before 2, but the list has 1 element");
  CHECK(
      problem_with(Ends(), 3) ==
      "the plan names \"layers.[:2]\" and \"layers.[-2:].mlp.up\", whose bounds have another order in a list "
      "of 3 elements than in a long one: 2 comes after 1");
  CHECK(problem_with(FirstFrozen(), 4) == "the plan names \"layers.[:n]\", but no config.n is given");
  CHECK(problem_with(FirstFrozen(), 4, 5) ==
        "the plan names \"layers.[:n]\", from 0 to before 5, but the list has 4 elements");
  CHECK(problem_with(All(), 4, 5) ==
        "config.n is 5, but no slice of the plan has an n, as \"layers.[:n]\" would");
  CHECK(problem_with(llm::LlamaAdapted<All, 3, 6, "layers.[-n:]">(), 4, 0, {5, 5}) ==
        "LlamaConfig: lora has the rank 5, but where config.n is 0, the plan gives no layer an adapter: set "
        "another "
        "n, or leave lora out");
}

}  // namespace
}  // namespace shardwise::testing
