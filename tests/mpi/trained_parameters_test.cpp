// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Every parameter that the loss depends on is trained, whatever is computed from it first: a model in the forms that are easy to
/// take off the tape, beside the same training in Eigen with differences for gradients. And a first step says which
/// parameters no gradient has reached.

#include <doctest/doctest.h>
#include <shardwise/shardwise.hpp>

#include <array>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace shardwise::testing::trained_parameters {
namespace {

using MeshType = Mesh<dp>;
template <int Rank>
using Weight = Parameter<Tensor<double, Rank, MeshType, Reduced>>;

constexpr Index batch = 5, length = 3, features = 4, inputs = 3;
constexpr double decay = 0.3;

/// A learned table of positions of which some rows are used, a bias behind a function, a weight that is a product of two,
/// a second input, a weight used twice, and weight decay as a term of the loss.
struct Forms : Module<Forms> {
  Weight<2> weight, positions, up, down, second;
  Weight<1> bias;

  explicit Forms(const MeshType& mesh)
      : weight(mesh, {features, inputs}, Init::normal(1)),
        positions(mesh, {6, features}, Init::normal(1)),
        up(mesh, {features, 2}, Init::normal(1)),
        down(mesh, {inputs, 2}, Init::normal(1)),
        second(mesh, {features, 2}, Init::normal(1)),
        bias(mesh, {features}, Init::normal(1)) {}
  auto forward(const auto& x, const auto& z) const {
    auto h = add(linear(x, weight), narrow<0>(alongside(positions, x), 1, length));
    h = add(h, tanh(alongside(bias, x)));
    h = add(h, linear(x, linear(alongside(up, x), down)));
    return add(h, linear(z, second));
  }
  void visit(auto&& f) {
    f("weight", weight), f("positions", positions), f("up", up), f("down", down), f("second", second);
    f("bias", bias);
  }
};
auto loss_of(const Forms& model, const auto& x, const auto& z) {
  const auto h = model(x, z);
  const auto once = redistribute<dp, Partial<>>(scale(sum_of_squares(alongside(model.weight, h)), decay));
  return redistribute<dp, Replicate>(add(mean(mul(h, h)), once));
}

using Values = std::vector<Eigen::MatrixXd>;
double dense_loss(const Values& p, const Eigen::MatrixXd& x, const Eigen::MatrixXd& z) {
  Eigen::MatrixXd h = x * p[0].transpose() + x * (p[2] * p[3].transpose()).transpose() + z * p[4].transpose();
  for (Index row = 0; row < h.rows(); ++row) {
    h.row(row) += p[1].row(1 + row % length);
    h.row(row) += p[5].col(0).array().tanh().matrix().transpose();
  }
  return h.squaredNorm() / static_cast<double>(h.size()) + decay * p[0].squaredNorm();
}
void dense_step(Values& p, const Eigen::MatrixXd& x, const Eigen::MatrixXd& z, double rate) {
  Values stepped = p;
  for (std::size_t i = 0; i < p.size(); ++i) {
    for (Index at = 0; at < p[i].size(); ++at) {
      const double value = p[i].data()[at], h = 1e-4;
      p[i].data()[at] = value + h;
      const double above = dense_loss(p, x, z);
      p[i].data()[at] = value - h;
      const double below = dense_loss(p, x, z);
      p[i].data()[at] = value;
      stepped[i].data()[at] -= rate * (above - below) / (2 * h);
    }
  }
  p = stepped;
}

Values values_of(Forms& model) {
  Values all;
  for_each_parameter(model, [&](auto& p) { all.emplace_back(full_tensor(p.stored())); });
  return all;
}
/// [batch, length, n], of values that follow from the place.
Tensor<double, 3, MeshType, Shard<0>> numbers(const MeshType& mesh, Index n, std::uint64_t seed) {
  return randn<double, Shard<0>>(mesh, {batch, length, n}, seed);
}
Eigen::MatrixXd rows_of(const Tensor<double, 3, MeshType, Shard<0>>& x) {
  return full_tensor(reshape(redistribute<dp, Replicate>(x), {batch * length, x.shape()[2]}));
}

TEST_CASE("what is computed from parameters alone, or from a second input, trains them") {
  const MeshType mesh(world(), {any});
  Forms model(mesh);
  initialize(model, 3);
  const auto x = numbers(mesh, inputs, 1), z = numbers(mesh, 2, 2);
  const Eigen::MatrixXd all_x = rows_of(x), all_z = rows_of(z);
  Values dense = values_of(model);
  SGD sgd({.rate = 0.2});
  for (int step = 0; step < 3; ++step) {
    Tape tape;
    const auto loss = loss_of(model, tape.constant(x), tape.constant(z));
    CHECK(item(loss.value()) == doctest::Approx(dense_loss(dense, all_x, all_z)).epsilon(1e-7));
    CHECK(item(loss_of(model, x, z)) == item(loss.value()));  // and without a tape
    tape.backward(loss);
    sgd.step(model);
    dense_step(dense, all_x, all_z, 0.2);
  }
  const Values trained = values_of(model);
  for (std::size_t i = 0; i < dense.size(); ++i) CHECK((trained[i] - dense[i]).cwiseAbs().maxCoeff() < 1e-6);
}

/// What a first step says, or "".
std::string said_by(auto step) {
  try {
    step();
    return "";
  } catch (const std::logic_error& error) {
    return error.what();
  }
}
auto without_second(const Forms& model, Tape& tape, const MeshType& mesh) {
  const auto h = linear(tape.constant(numbers(mesh, inputs, 1)), model.weight);
  return redistribute<dp, Replicate>(mean(mul(h, h)));
}
bool names(const std::string& text, const char* name) { return text.find(name) != std::string::npos; }

TEST_CASE("a first step names the parameters that no gradient has reached") {
  const MeshType mesh(world(), {any});
  Forms model(mesh);
  initialize(model, 3);
  const auto before = values_of(model);
  AdamW adamw;
  const auto step = [&] {
    Tape tape;
    tape.backward(without_second(model, tape, mesh));
    adamw.step(model);
  };
  const std::string said = said_by(step);
  for (const char* name : {"'positions'", "'up'", "'down'", "'second'", "'bias'"}) CHECK(names(said, name));
  CHECK_FALSE(names(said, "'weight'"));
  CHECK(names(said, "may_be_unused"));
  CHECK(said_by(step) == said);  // and again: nothing was changed
  CHECK(values_of(model).front() == before.front());
}

/// A module that forgets to name one of its parameters.
struct Forgetful : Module<Forgetful> {
  Weight<2> weight;
  Weight<1> shift;

  explicit Forgetful(const MeshType& mesh)
      : weight(mesh, {features, inputs}, Init::normal(1)), shift(mesh, {features}, Init::constant(0)) {}
  auto forward(const auto& x) const { return add(linear(x, weight), shift); }
  void visit(auto&& f) { f("weight", weight); }
};

TEST_CASE("a second step finds a parameter that no visit names") {
  const MeshType mesh(world(), {any});
  Forgetful model(mesh);
  initialize(model, 3);
  model.shift.assign(full<double, Reduced>(mesh, {features}, 0.5));
  SGD sgd;
  const auto step = [&] {
    Tape tape;
    const auto h = model(tape.constant(numbers(mesh, inputs, 1)));
    tape.backward(redistribute<dp, Replicate>(mean(mul(h, h))));
    return said_by([&] { sgd.step(model); });
  };
  CHECK(step().empty());
  CHECK(names(step(), "a parameter [4] has gradients of two steps, which no optimizer has taken"));
}

TEST_CASE("parameters may be unused: all, those of a group, and in later steps") {
  const MeshType mesh(world(), {any});
  Forms model(mesh);
  initialize(model, 3);
  const auto part = [&](auto& optimizer) {
    Tape tape;
    tape.backward(without_second(model, tape, mesh));
    return said_by([&] { optimizer.step(model); });
  };
  AdamW all({.may_be_unused = true});
  CHECK(part(all).empty());
  SGD group;
  group.add_group([](const ParameterInfo& p) { return p.name != "weight" && p.name != "up"; },
                  [](SgdUpdate& settings) { settings.may_be_unused = true; });
  const std::string said = part(group);
  CHECK(names(said, "'up'"));
  CHECK_FALSE(names(said, "'down'"));
  clear_gradients(model);
  AdamW later;
  {
    Tape tape;
    tape.backward(
        loss_of(model, tape.constant(numbers(mesh, inputs, 1)), tape.constant(numbers(mesh, 2, 2))));
    later.step(model);
  }
  CHECK(part(later).empty());
}

using Layer = Linear<MeshType, NoParallel, double>;
using Norm = LayerNorm<MeshType, NoParallel, double>;
/// Members as a program may hold them.
struct Held : Module<Held> {
  std::unique_ptr<Layer> pointed;
  std::tuple<Layer, Norm> both;
  std::array<std::optional<Weight<1>>, 2> some;

  explicit Held(const MeshType& mesh)
      : pointed(std::make_unique<Layer>(mesh, inputs, features)),
        both(Layer(mesh, features, features), Norm(mesh, features)) {
    some[1].emplace(mesh, Shape<1>{features}, Init::normal(1));
  }
  auto forward(const auto& x) const {
    return add(std::get<1>(both)(std::get<0>(both)((*pointed)(x))), *some[1]);
  }
  void visit(auto&& f) { f("pointed", pointed), f("both", both), f("some", some); }
};

TEST_CASE("members behind pointers, and in tuples, arrays and optionals, are trained") {
  const MeshType mesh(world(), {any});
  Held model(mesh);
  std::string names;
  for_each_named_parameter(model, [&](std::string_view name, auto&) { names.append(name).append(" "); });
  CHECK(names == "pointed.weight pointed.bias both.0.weight both.0.bias both.1.weight both.1.bias some.1 ");
  initialize(model, 3);
  SGD sgd({.rate = 0.01});
  const auto x = randn<double, Shard<0>>(mesh, {batch, inputs}, 5);
  double first = 0, last = 0;
  for (int step = 0; step < 3; ++step) {
    Tape tape;
    const auto y = model(tape.constant(x));
    const auto loss = redistribute<dp, Replicate>(mean(mul(y, y)));
    (step == 0 ? first : last) = item(loss.value());
    tape.backward(loss);
    sgd.step(model);
  }
  CHECK(last < first);
}

/// Two layers of equal sizes, of which a call uses one.
struct Either : Module<Either> {
  Layer left, right;
  explicit Either(const MeshType& mesh) : left(mesh, inputs, features), right(mesh, inputs, features) {}
  auto forward(const auto& x, bool on_the_left) const { return on_the_left ? left(x) : right(x); }
  void visit(auto&& f) { f("left", left), f("right", right); }
};

TEST_CASE("ranks of one host that have gradients of different parameters throw, and do not add them up") {
  const MeshType mesh(world(), {any});
  Either model(mesh);
  initialize(model, 3);
  SGD sgd({.rate = 0.1, .may_be_unused = true});
  const auto x = randn<double, Shard<0>>(mesh, {batch, inputs}, 5);
  const auto step = [&](bool on_the_left) {
    Tape tape;
    const auto y = model(tape.constant(x), on_the_left);
    tape.backward(redistribute<dp, Replicate>(mean(mul(y, y))));
    sgd.step(model);
  };
  step(true);
  if (mesh.size() == 1 || std::string_view(world().transport()) != "shared memory") return;
  CHECK_THROWS_WITH_AS(step(mesh.rank() == 0), doctest::Contains("ranks differ in their collective"),
                       std::runtime_error);
}

}  // namespace
}  // namespace shardwise::testing::trained_parameters
