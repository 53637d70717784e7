// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A backward pass in two parts, inputs first and parameters later, gives the bits of one in one; also through units,
/// recomputed layers and a task beside it, and between hosts.

#include <doctest/doctest.h>
#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/shardwise.hpp>
#include <support/plans.hpp>

#include <vector>

#include "module_check.hpp"

namespace shardwise::testing::backward_parts {
namespace {

using Grid = Mesh<dp, tp>;
const llm::LlamaConfig config{
    .vocabulary = 23, .features = 16, .layers = 2, .heads = 4, .kv_heads = 4, .hidden = 10};

/// Two micro-batches. In two parts, both inputs come before both parameters.
template <int Level>
Outcome gradients(const Grid& mesh, bool in_parts, bool recomputes) {
  llm::Llama<Grid, PlanWith<llm::LlamaSequenceParallel<>, Zero<Level, dp>>, double> model(mesh, config);
  model.recompute_layers = recomputes;
  initialize(model, 3);
  const auto loss_of = [&](Tape& tape, int number) {
    std::vector<std::int32_t> ids;
    for (int i = 0; i < 4 * 6; ++i) ids.push_back((i * i + 5 * number) % 23);
    const auto batch =
        distribute<Shard<0>, Replicate>(mesh, Shape<2>{4, 6}, std::span<const std::int32_t>(ids));
    return CrossEntropyLoss()(model(tape.constant(batch)), batch);
  };
  Tape first, second;
  if (in_parts) {
    first.backward_inputs(loss_of(first, 0));
    second.backward_inputs(loss_of(second, 1));
    const detail::ParameterState& early = *model.layers[0].mlp->down.weight.cell();
    CHECK_FALSE((early.pending->filled() || early.accumulated->filled()));
    first.backward_parameters();
    CHECK((early.pending->filled() || early.accumulated->filled()));
    GradientReducer reducer;
    second.set_task(&reducer);
    second.backward_parameters();
  } else {
    first.backward(loss_of(first, 0));
    second.backward(loss_of(second, 1));
  }
  reduce_gradients(model);
  return gradients_of(model);
}

void check_on(const std::vector<Grid>& meshes) {
  for (const Grid& mesh : meshes) {
    if (config.heads % mesh.size<tp>() != 0) continue;
    for (const bool recomputes : {false, true}) {
      INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), " recomputes ", recomputes);
      CHECK(gradients<0>(mesh, true, recomputes) == gradients<0>(mesh, false, recomputes));
      CHECK(gradients<2>(mesh, true, recomputes) == gradients<2>(mesh, false, recomputes));
      CHECK(gradients<3>(mesh, true, recomputes) == gradients<3>(mesh, false, recomputes));
    }
  }
}

TEST_CASE("a backward pass in two parts") { check_on(data_by_tensor_meshes()); }
TEST_CASE("… and between hosts, where a whole pass postpones gradients of parameters") {
  check_on(data_by_tensor_meshes(world().on_hosts(world().rank())));
}

TEST_CASE("a tape is used again after an exception ended a pass that postponed gradients") {
  const Mesh<tp> mesh(world().on_hosts(world().rank()), {world().size()});
  Linear<Mesh<tp>, ColwiseParallel<tp>, double> layer(mesh, 6, 4);
  initialize(layer, 1);
  const auto x = randn<double, Shard<0>>(mesh, {8, 6}, 2);
  Tape tape;
  bool fails = false;
  const auto pass = [&] {
    const auto in = tape.input(x);
    auto node = [&](BackwardPart) { return std::exchange(fails, false) ? throw 1 : false; };
    const auto before = layer(in);
    tape.record<PullbackNode<decltype(node)>>(node);
    tape.backward(redistribute<Replicate>(add(sum(before), sum(layer(in)))));
    reduce_gradients(layer);
    return gradients_of(layer);
  };
  const Outcome expected = pass();
  clear_gradients(layer);
  fails = true;
  CHECK_THROWS_AS(pass(), int);
  clear_gradients(layer);
  CHECK(pass() == expected);
}

}  // namespace
}  // namespace shardwise::testing::backward_parts
