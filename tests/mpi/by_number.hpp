// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#pragma once

/// @file
/// Plans that name layers by their numbers, for a small Llama, and a step of it.

#include <doctest/doctest.h>
#include <shardwise/shardwise.hpp>

#include "ids_on.hpp"
#include "outcome.hpp"

namespace shardwise::testing {

using Grid = Mesh<dp, tp>;
using Colwise = ColwiseParallel<tp>;
using Rowwise = RowwiseParallel<tp>;
using Alike = LlamaTensorParallel<>;
/// The MLP of layer 1 is whole on every rank, and the projection of layer 2 to queries is not trained.
using Some = PlanWith<
    PlanAnd<Alike, Use<"layers.1.mlp.*", NoParallel>, Use<"layers.2.attention.wq", Styles<Colwise, Frozen>>>,
    Zero<2, dp>>;

inline constexpr LlamaConfig config{
    .vocabulary = 23, .features = 16, .layers = 4, .heads = 4, .kv_heads = 4, .hidden = 10};

/// A step of two passes.
template <class Model>
constexpr void train(Model& model, double largest_norm = 1) {
  const auto& mesh = model.norm->weight.mesh();
  for (int i = 0; i < 2; ++i) {
    Tape tape;
    const auto loss = model(tape.constant(ids_on(mesh, i)), ids_on(mesh, i + 1), LinearCrossEntropyLoss());
    backward_and_reduce(loss, model, {.last = i == 1});
  }
  clip_gradients(model, largest_norm);
  AdamW().step(model);
}

/// Of two layers the MLP, or the projections of attention, are whole on every rank.
using Whole = PlanAnd<Alike, Use<"layers.1.mlp.*", NoParallel>, Use<"layers.3.attention.w*", NoParallel>>;

inline void check_equal(const Outcome& found, const Outcome& right) {
  REQUIRE(found.size() == right.size());
  for (const auto& each : found) {
    INFO(each.first);
    const auto other = right.find(each.first);
    REQUIRE(other != right.end());
    CHECK(error(each.second, other->second) < 1e-13);
  }
}

}  // namespace shardwise::testing
