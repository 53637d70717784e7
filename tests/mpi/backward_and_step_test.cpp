// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The last backward pass of a step and the step in one: the bits, and the communication, of `backward_and_reduce` and
/// `step`; but updates begin while gradients are still on the way.

#include <doctest/doctest.h>
#include <shardwise/shardwise.hpp>

#include <stdexcept>
#include <string>
#include <vector>

#include "fragile_node.hpp"
#include "module_check.hpp"

namespace shardwise::testing::backward_and_step {
namespace {

/// What ends a step.
enum class End { in_two_calls, in_one, in_turn };

constexpr bool in_one_call(End end, int step) {
  return end == End::in_one || (end == End::in_turn && step % 2 == 1);
}

struct Training {
  ReduceOptions reduction{};
  int micro_batches = 1, steps = 2;
};

/// What a model, and its optimizer, hold after some steps; the first parameter by name is in a group of its own.
struct Trained {
  Outcome values;
  Record record;
};
template <class Model, class LossOf>
Trained train(const auto& mesh, Model& model, LossOf loss_of, const Training& training, End end) {
  AdamW adamw({.rate = 0.05, .may_be_unused = true}, training.reduction);
  const std::string first = detail::named_parameters_of(model).front().name;
  adamw.add_group([&](const ParameterInfo& p) { return p.name == first; },
                  [](AdamWUpdate& settings) { settings.weight_decay = 0.3; }, 2);
  Recording recording(mesh);
  for (int step = 0; step < training.steps; ++step) {
    for (int i = 0; i < training.micro_batches; ++i) {
      Tape tape;
      auto loss = loss_of(model, tape, step * training.micro_batches + i);
      ReduceOptions options = training.reduction;
      options.last = i + 1 == training.micro_batches;
      if (options.last && in_one_call(end, step)) {
        adamw.backward_and_step(loss, model);
      } else {
        backward_and_reduce(loss, model, options);
      }
    }
    if (!in_one_call(end, step)) adamw.step(model);
  }
  Trained trained{values_of(model), recording.plan().record()};
  adamw.for_each_state(
      model, [&](const std::string& name, const detail::AnyTensor& x) { trained.values[name] = whole(x); },
      [&](const std::string& name, std::int64_t n) { trained.values[name] = {static_cast<double>(n)}; });
  CHECK(trained.values.at("steps") == Numbers{static_cast<double>(training.steps)});
  return trained;
}

/// Trains models that `make()` makes in all ways.
template <class Make, class LossOf>
void check_same(const auto& mesh, Make make, LossOf loss_of) {
  for (const Training& training :
       {Training{{.bucket_bytes = 0, .in_background = 0}, 1},
        Training{{.bucket_bytes = 1000, .in_background = 0}, 3},
        Training{{.bucket_bytes = 0, .in_background = 8}, 3},
        Training{{.bucket_bytes = 1000, .in_background = 8}, 1}, Training{{.in_background = 2}, 2}}) {
    INFO("in background ", training.reduction.in_background, " bytes ", training.reduction.bucket_bytes);
    const auto trained = [&](End end) {
      auto model = make();
      initialize(model, 3);
      return train(mesh, model, loss_of, training, end);
    };
    const Trained expected = trained(End::in_two_calls);
    for (const End end : {End::in_one, End::in_turn}) {
      // In turn, what a step left to the next is what matters: with the most of it under way.
      if (end == End::in_turn && training.reduction.in_background != 8) continue;
      const Trained found = trained(end);
      CHECK(found.values == expected.values);  // bit by bit
      CHECK(found.record.traffic == expected.record.traffic);
      CHECK(found.record.sequence == expected.record.sequence);
      CHECK(found.record.flops == expected.record.flops);
      CHECK(found.record.all_memory.live == expected.record.all_memory.live);
    }
  }
}

// ---- Llama ----------------------------------------------------------------------------------------------------------

using Grid = Mesh<dp, tp>;
constexpr LlamaConfig config_of(bool tied) {
  return {
      .vocabulary = 23, .features = 16, .layers = 2, .heads = 4, .kv_heads = 4, .hidden = 10, .tied = tied};
}
template <class MeshType, int Level>
using LlamaOn = Llama<MeshType, PlanWith<LlamaSequenceParallel<>, Zero<Level, dp>>, double>;

constexpr auto loss_of_llama = [](const auto& model, Tape& tape, int number) {
  const auto& mesh = model.norm->weight.mesh();
  Tensor<std::int32_t, 2, std::remove_cvref_t<decltype(mesh)>, Shard<0>, Replicate> ids(mesh, {4, 6});
  if (!mesh.dry()) {
    const auto block = ids.writable();
    for (Index i = 0; i < block.elements(); ++i)
      block.data[i] = static_cast<std::int32_t>((i * i + block.begin[0] + 5 * number) % 23);
  }
  return CrossEntropyLoss()(model(tape.constant(ids)), ids);
};

/// Ranks as if each had a host to itself, between which communication goes on in the background; and as they are.
std::vector<Grid> grids() {
  std::vector<Grid> all = data_by_tensor_meshes();
  if (world().size() > 1) all.emplace_back(world().on_hosts(world().rank()), std::array<int, 2>{any, 1});
  return all;
}

template <int Level>
void check_llama() {
  for (const Grid& mesh : grids()) {
    if (config_of(false).heads % mesh.size<tp>() != 0) continue;
    for (const bool tied : {false, true}) {
      if (!tied && (Level == 1 || Level == 2)) continue;  // a head of its own: as the layers'
      INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), " level ", Level, " tied ", tied);
      check_same(
          mesh, [&] { return LlamaOn<Grid, Level>(mesh, config_of(tied)); }, loss_of_llama);
    }
  }
}

TEST_CASE("a Llama: the bits and the communication of two calls") {
  check_llama<0>();
  check_llama<1>();
  check_llama<2>();
  check_llama<3>();
}

/// A step in one call, for dry and real meshes.
template <int Level>
struct OneStep {
  ReduceOptions reduction;

  template <class MeshType>
  constexpr void operator()(const MeshType& mesh) const {
    LlamaOn<MeshType, Level> model(mesh, config_of(true));
    initialize(model, 3);
    AdamW adamw({}, reduction);
    Tape tape;
    auto loss = loss_of_llama(model, tape, 1);
    adamw.backward_and_step(loss, model);
  }
};

TEST_CASE("the plan, the recording and MPI agree") {
  static_assert(trace<Mesh<dp, tp>>({4, 1}, OneStep<0>{}).count(Collective::all_reduce, Phase::optimizer) ==
                1);
  for (const Grid& mesh : data_by_tensor_meshes()) {
    if (config_of(true).heads % mesh.size<tp>() != 0) continue;
    for (const int background : {0, 8}) {
      const ReduceOptions reduction{.bucket_bytes = 1000, .in_background = background};
      agreed_plan(mesh, OneStep<0>{reduction});
      agreed_plan(mesh, OneStep<1>{reduction});
      agreed_plan(mesh, OneStep<3>{reduction});
    }
  }
}

/// How often this rank waits for gradients after the first update of a step.
int waits_beside_updates(const Grid& mesh, bool in_one_call) {
  LlamaOn<Grid, 0> model(mesh, config_of(false));
  initialize(model, 3);
  const ReduceOptions reduction{.bucket_bytes = 1000};
  AdamW adamw({}, reduction);
  Tape tape;
  auto loss = loss_of_llama(model, tape, 0);
  EventLog log;
  Recording recording(mesh, &log);
  if (in_one_call) {
    adamw.backward_and_step(loss, model);
  } else {
    backward_and_reduce(loss, model, reduction);
    adamw.step(model);
  }
  int waits = 0;
  bool updates = false;
  for (const Event& event : log.events()) {
    updates = updates || (event.phase == Phase::optimizer && event.computes() && event.amount > 0);
    if (updates && event.waits) ++waits;
  }
  CHECK(updates);
  return waits;
}

TEST_CASE("an update begins before the last gradients have arrived") {
  if (world().size() == 1) return;
  const Grid mesh = grids().back();
  CHECK(waits_beside_updates(mesh, false) == 0);
  CHECK(waits_beside_updates(mesh, true) > 3);
}

// ---- A model with parameters of all kinds -----------------------------------------------------------------------------

struct replica {
  static constexpr const char* name = "replica";
  static constexpr bool data = true;
};
using Hybrid = Mesh<replica, dp>;
constexpr Index vocabulary = 13, features = 10;

/// A table with two names, whose gradient is rows; a unit that is called twice; parameters within and without a unit, without one, frozen,
/// and without a gradient. Where they must be in a unit, they are.
template <int Level>
struct Net {
  using Style = Styles<NoParallel, Zero<Level, dp>>;
  using Layer = Linear<Hybrid, Style, double>;

  explicit Net(const Hybrid& mesh)
      : table(mesh, vocabulary, features),
        twice(mesh, features, features),
        given(mesh, features, features),
        shared(mesh, features, features),
        alone(mesh, features, features),
        unused(mesh, features, features),
        first(table),
        second(twice),
        third(shared, alone, unused) {}

  template <class Ids>
  auto operator()(const Ids& ids) const {
    auto x = first(ids, [&](const auto& in) { return table(in); });
    for (int i = 0; i < 2; ++i) x = second(x, [&](const auto& in) { return gelu(twice(in)); });
    x.tape().template record<Fragile>(fails);
    auto y = given(x);
    if constexpr (Level < 3) {
      y = alone(shared(y));
      return third(y, [&](const auto& in) { return shared(in); });
    } else {
      return third(y, [&](const auto& in) { return shared(alone(shared(in))); });
    }
  }
  void visit(auto&& f) {
    f("table", table);
    f("twice", twice);
    f("given", given);
    f("shared", shared);
    f("alone", alone);
    f("unused", unused);
    f("again", table);
  }

  Embedding<Hybrid, Zero<Level, dp>, double> table;
  Layer twice;
  Linear<Hybrid, Styles<NoParallel, Frozen>, double> given;
  Layer shared, alone, unused;
  Unit first, second, third;
  bool fails = false;
};

constexpr auto loss_of_net = [](const auto& net, Tape& tape, int number) {
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 7 * 3; ++i) ids.push_back(static_cast<std::int32_t>((i * i + 3 * number) % vocabulary));
  const auto batch = distribute<Shard<0>, Shard<0>>(net.given.weight.mesh(), Shape<2>{7, 3},
                                                    std::span<const std::int32_t>(ids));
  auto y = net(tape.constant(batch));
  return redistribute<Replicate, Replicate>(mean(mul(y, y)));
};

template <int Level>
void check_net() {
  std::vector<Hybrid> meshes = all_meshes<replica, dp>();
  const int replicas = world().size() % 2 == 0 ? 2 : 1;
  meshes.emplace_back(world().on_hosts(world().rank()), std::array<int, 2>{replicas, any});
  for (const Hybrid& mesh : meshes) {
    INFO("replica ", mesh.size<replica>(), " dp ", mesh.size<dp>(), " level ", Level);
    check_same(
        mesh, [&] { return Net<Level>(mesh); }, loss_of_net);
  }
}

TEST_CASE("rows, units called twice, parameters outside of units, frozen and unused ones, on two data axes") {
  check_net<0>();
  check_net<1>();
  check_net<2>();
  check_net<3>();
}

TEST_CASE("an error comes before anything is changed") {
  for (const Hybrid& mesh : all_meshes<replica, dp>()) {
    for (const int background : {0, 8}) {
      const Training training{{.bucket_bytes = 0, .in_background = background}, 1, 2};
      Net<0> expected(mesh), net(mesh), other(mesh);
      for (auto* each : {&expected, &net, &other}) initialize(*each, 3);
      train(mesh, expected, loss_of_net, training, End::in_two_calls);

      const auto before = values_of(net);
      {  // of another module than the steps before
        AdamW adamw({.rate = 0.05, .may_be_unused = true}, training.reduction);
        Tape tape;
        adamw.backward_and_step(loss_of_net(other, tape, 0), other);
        auto loss = loss_of_net(net, tape, 0);
        CHECK_THROWS_WITH_AS(adamw.backward_and_step(loss, net),
                             "an optimizer is for one module: parameter 0 is not the one of the steps before",
                             std::invalid_argument);
        CHECK(adamw.steps() == 1);
        CHECK_FALSE(net.alone.weight.gradient());  // the pass has not begun
        CHECK(values_of(net) == before);
      }
      {  // in the pass
        AdamW adamw({.rate = 0.05, .may_be_unused = true}, training.reduction);
        Tape tape;
        auto loss = loss_of_net(net, tape, 0);
        net.fails = true;
        CHECK_THROWS_WITH(adamw.backward_and_step(loss, net), "fragile");
        net.fails = false;
        CHECK(adamw.steps() == 0);
        CHECK(values_of(net) == before);
        clear_gradients(net);
      }
      train(mesh, net, loss_of_net, training, End::in_one);
      CHECK(values_of(net) == values_of(expected));
    }
  }
}

}  // namespace
}  // namespace shardwise::testing::backward_and_step
