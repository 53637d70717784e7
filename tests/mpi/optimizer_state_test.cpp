// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Optimizer state in bfloat16: the same bits on every mesh, ZeRO level and layout, and after a checkpoint; half the
/// bytes; and why it is rounded stochastically.

#include <shardwise/checkpoint/load.hpp>
#include <shardwise/checkpoint/save.hpp>
#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/shardwise.hpp>
#include <shardwise/train/muon.hpp>

#include "ops_check.hpp"
#include "scratch_folder.hpp"

namespace shardwise::testing::optimizer_state {
namespace {

using Eigen::bfloat16;
using Grid = Mesh<dp, tp>;

/// Weights whose blocks begin anywhere in the whole, some with more elements than are converted at a time.
template <class T, class P0, class P1, int Level>
struct Weights {
  static constexpr PackedSharding how(int rank, bool cut_first) {
    return Level == 0 ? 0 : packed(Sharding{rank > 1 && cut_first ? 1 : 0, {Level, 0}});
  }
  template <int Rank, class P>
  using Weight = Parameter<Tensor<T, Rank, Grid, Reduced, P>, how(Rank, std::is_same_v<P, Shard<0>>)>;

  explicit Weights(const Grid& mesh)
      : wide(mesh, {3, 4099}, Init::normal(1)),
        tall(mesh, {61, 7}, Init::normal(1)),
        bias(mesh, {5}, Init::normal(1)) {}
  void visit(auto&& f) { f("wide", wide), f("tall", tall), f("bias", bias); }

  Weight<2, P0> wide;
  Weight<2, P1> tall;
  Weight<1, Reduced> bias;
};

using Vector = Parameter<Tensor<float, 1, Grid, Reduced, Reduced>>;
struct One {
  Vector x;
  void visit(auto&& f) { f("x", x); }
};
struct Two {
  Vector a, b;
  void visit(auto&& f) { f("a", a), f("b", b); }
};

template <class Model>
void add_gradients(Model& model, int step) {
  int number = 0;
  model.visit([&](const char*, auto& p) {
    auto& cell = *p.cell();
    detail::AnyTensor gradient = cell.stored.unwritten(cell.layouts.finished, MemoryUse::gradient);
    place(gradient, random_dense(gradient.extents(), static_cast<std::uint64_t>(step * 10 + ++number)));
    cell.finished.add(std::move(gradient.buffer), *cell.functions.sum, gradient.mesh.recorder());
  });
}

/// Makes the steps from `first` on.
template <class Model, class Optimizer>
void train(Model& model, Optimizer& optimizer, int first, int end) {
  for (int step = first; step < end; ++step) {
    add_gradients(model, step);
    optimizer.step(model);
  }
}
/// The values, and the state.
template <class Model, class Optimizer>
std::vector<Dense> everything(Model& model, Optimizer& optimizer) {
  std::vector<Dense> values;
  model.visit([&](const char*, auto& p) { values.push_back(gather(p.stored())); });
  optimizer.for_each_state(
      model, [&](const std::string&, const detail::AnyTensor& x) { values.push_back(gather(x)); },
      [](const std::string&, std::int64_t&) {});
  return values;
}

constexpr int steps = 4;
template <class Optimizer, class T, class P0, class P1, int Level, class Settings>
std::vector<Dense> trained(const Grid& mesh, const Settings& settings) {
  Weights<T, P0, P1, Level> model(mesh);
  initialize(model, 3);
  Optimizer optimizer(settings);
  train(model, optimizer, 0, steps);
  return everything(model, optimizer);
}
template <class Optimizer, class T, class Settings>
std::vector<Dense> alone(const Settings& settings) {
  return trained<Optimizer, T, Reduced, Reduced, 0>(Grid(self(), {1, 1}), settings);
}

void check_equal(const std::vector<Dense>& found, const std::vector<Dense>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO(i);
    CHECK(found[i].values == expected[i].values);
  }
}

template <class Optimizer, class T, class Settings>
void check_layouts(const Settings& settings) {
  const std::vector<Dense> expected = alone<Optimizer, T>(settings);
  for (const int on_dp : {1, world().size() % 2 == 0 ? 2 : 1, world().size()}) {
    const Grid mesh(world(), {on_dp, any});
    check_equal(trained<Optimizer, T, Reduced, Reduced, 0>(mesh, settings), expected);
    check_equal(trained<Optimizer, T, Shard<1>, Shard<0>, 0>(mesh, settings), expected);
    check_equal(trained<Optimizer, T, Shard<0>, Shard<1>, 1>(mesh, settings), expected);
    check_equal(trained<Optimizer, T, Shard<1>, Reduced, 2>(mesh, settings), expected);
    check_equal(trained<Optimizer, T, Shard<1>, Shard<0>, 3>(mesh, settings), expected);
  }
}
TEST_CASE("AdamW with state in bfloat16 has the same bits on every mesh, layout and ZeRO level: float") {
  check_layouts<AdamW, float>(AdamWUpdate{.state = StateType::bf16});
}
TEST_CASE("… bfloat16 with master weights") {
  check_layouts<AdamW, bfloat16>(AdamWUpdate{.state = StateType::bf16});
}
TEST_CASE("… double") { check_layouts<AdamW, double>(AdamWUpdate{.state = StateType::bf16}); }
TEST_CASE("… SGD") { check_layouts<SGD, float>(SgdUpdate{.momentum = 0.9, .state = StateType::bf16}); }
TEST_CASE("… Muon, and AdamW in its group") {
  struct WithGroup : Muon {
    explicit WithGroup(const MuonUpdate& settings) : Muon(settings) {
      add_group(is_not_hidden_matrix, with_adamw({.state = StateType::bf16}));
    }
  };
  check_layouts<WithGroup, float>(MuonUpdate{.rate = 0.02, .state = StateType::bf16});
}

TEST_CASE("random bits depend on parameter, step and element") {
  // Equal gradients in all elements, parameters and steps: with the same bits, elements would stay equal.
  const Grid mesh(self(), {1, 1});
  Two model{{mesh, {1000}, Init::constant(0)}, {mesh, {1000}, Init::constant(0)}};
  initialize(model, 1);
  SGD sgd({.momentum = 1, .state = StateType::bf16});
  std::vector<double> sums[2];
  for (int step = 0; step < 2; ++step) {
    model.visit([&](const char*, auto& p) {
      p.slot()->add(full<float, Reduced, Reduced>(mesh, {1000}, step == 0 ? 1.F : 1 / 512.F));
    });
    sgd.step(model);
  }
  sgd.for_each_state(
      model, [&](const std::string& name, const auto& x) { sums[name[0] - 'a'] = gather(x).values; },
      [](const std::string&, std::int64_t&) {});
  CHECK(sums[0] != sums[1]);
  const auto ups = std::count(sums[0].begin(), sums[0].end(), 1 + 1 / 128.);
  CHECK(ups + std::count(sums[0].begin(), sums[0].end(), 1.) == 1000);
  CHECK(std::abs(ups - 250) < 70);  // five standard deviations
}

TEST_CASE(
    "a checkpoint is continued with the same bits on another mesh; one with state of another type is "
    "refused") {
  const ScratchFolder folder;
  const AdamWUpdate settings{.state = StateType::bf16};
  const Grid mesh(world(), {any, 1}), other(world(), {1, any});
  const auto contents = [](const Grid& on, auto& model, AdamW& adamw) {
    CheckpointContents all(on);
    all.add("model", model);
    all.add("optimizer", adamw, model);
    return all;
  };
  Weights<bfloat16, Reduced, Shard<1>, 1> before(mesh);
  initialize(before, 3);
  AdamW first(settings);
  train(before, first, 0, 2);
  save_checkpoint(folder / "run", contents(mesh, before, first));
  Weights<bfloat16, Shard<1>, Shard<0>, 3> after(other);
  AdamW second(settings);
  load_checkpoint(folder / "run", contents(other, after, second));
  train(after, second, 2, steps);
  check_equal(everything(after, second), alone<AdamW, bfloat16>(settings));

  AdamW in_float;
  Weights<bfloat16, Shard<1>, Shard<0>, 3> refusing(other);
  const std::string problem = message_of<std::runtime_error>(
      [&] { load_checkpoint(folder / "run", contents(other, refusing, in_float)); });
  INFO(problem);
  CHECK(problem.find("tensor \"optimizer.wide.first\": expected the type F32, found BF16") !=
        std::string::npos);
}

TEST_CASE("the type is chosen before the first step") {
  Weights<float, Reduced, Reduced, 0> model(grid());
  initialize(model, 3);
  AdamW adamw;
  train(model, adamw, 0, 1);
  adamw.settings().state = StateType::bf16;
  add_gradients(model, 1);
  CHECK(message_of<std::logic_error>([&] { adamw.step(model); }) ==
        "the type of an optimizer's state is chosen before its first step, and before it is added to a "
        "checkpoint");
}

/// AdamW on one number in each of many elements, all with gradients of size `g`: the second moments after `count` steps.
std::vector<double> second_moments(StateType state, double g, int count) {
  const Grid mesh(self(), {1, 1});
  One model{{mesh, {4096}, Init::constant(0)}};
  initialize(model, 1);
  AdamW adamw({.state = state});
  for (int step = 0; step < count; ++step) {
    const double now = step == 0 ? 1 : g;
    model.x.slot()->add(full<float, Reduced, Reduced>(mesh, {4096}, static_cast<float>(now)));
    adamw.step(model);
  }
  std::vector<double> found;
  adamw.for_each_state(
      model,
      [&](const std::string& name, const auto& x) {
        if (name == "x.second") found = gather(x).values;
      },
      [](const std::string&, std::int64_t&) {});
  return found;
}
TEST_CASE("rounded to nearest the second moment of Adam stalls; rounded stochastically it does not") {
  // After a gradient of 1, gradients are 0.1: the moment must go from 0.001 to nearly 0.01.
  const int count = 2000;
  const double exact = second_moments(StateType::compute, 0.1, count).front();
  bfloat16 nearest{0};
  for (int step = 0; step < count; ++step)
    nearest = kernel::narrow<bfloat16>(0.999F * kernel::widen(nearest) + 0.001F * (step == 0 ? 1 : 0.01F));
  CHECK(exact > 0.008);
  CHECK(kernel::widen(nearest) < 0.3 * exact);  // it stalls where a step changes it by less than 1/512
  const std::vector<double> found = second_moments(StateType::bf16, 0.1, count);
  const double mean = std::accumulate(found.begin(), found.end(), 0.) / static_cast<double>(found.size());
  CHECK(std::abs(mean - exact) < 0.002 * exact);
  for (const double each : found) CHECK(std::abs(each - exact) < 0.3 * exact);
}

/// The mean loss of the last 20 of 200 steps of a small Llama. Each token follows from the one before it, but for one
/// random bit, so no loss is below log(2) in the mean.
double trained_loss(StateType state) {
  const Grid mesh(world(), {any, 1});
  llm::Llama<Grid> model(
      mesh, {.vocabulary = 13, .features = 24, .layers = 2, .heads = 4, .kv_heads = 2, .hidden = 48});
  initialize(model, 1);
  AdamW adamw({.rate = 1e-2, .state = state});
  double sum = 0;
  for (int step = 0; step < 200; ++step) {
    constexpr Index sequences = 12, length = 16;
    std::vector<std::int32_t> inputs, targets;
    for (Index i = 0; i < sequences; ++i) {
      auto token = static_cast<std::int32_t>(i);
      for (Index j = 0; j < length; ++j) {
        inputs.push_back(token);
        const auto number = static_cast<std::uint64_t>((step * sequences + i) * length + j);
        token = (3 * token + (kernel::uniform(5, number) < 0.5 ? 1 : 0)) % 13;
        targets.push_back(token);
      }
    }
    const auto on_ranks = [&](const std::vector<std::int32_t>& all) {
      return distribute<Shard<0>, Replicate>(mesh, Shape<2>{sequences, length},
                                             std::span<const std::int32_t>(all));
    };
    Tape tape;
    auto loss = CrossEntropyLoss()(model(tape.constant(on_ranks(inputs))), on_ranks(targets));
    backward_and_reduce(loss, model);
    adamw.step(model);
    if (step >= 180) sum += static_cast<double>(item(loss));
  }
  return sum / 20;
}
TEST_CASE("a Llama learns as much with state in bfloat16") {
  const double in_float = trained_loss(StateType::compute), in_bf16 = trained_loss(StateType::bf16);
  INFO("float ", in_float, ", bf16 ", in_bf16);
  CHECK(in_float < 0.8);
  CHECK(std::abs(in_bf16 - in_float) < 0.01);
}

}  // namespace
}  // namespace shardwise::testing::optimizer_state
