// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// L-BFGS against dense solutions, and the check of gradients and the list of parameters on the same models, in all
/// layouts.

#include <doctest/doctest.h>
#include <Eigen/Cholesky>
#include <shardwise/module/copy_parameters.hpp>
#include <shardwise/shardwise.hpp>
#include <shardwise/train/check_gradients.hpp>
#include <shardwise/train/lbfgs.hpp>

#include <string>
#include <vector>

namespace shardwise::testing::lbfgs {
namespace {

using Plane = Mesh<dp, tp>;

Plane plane() {
  const int n = world().size();
  return {world(), {n % 2 == 0 ? 2 : 1, n % 2 == 0 ? n / 2 : n}};
}

/// Level 0 to 3 of ZeRO over dp, and tensor parallel over tp.
template <int Level, class MeshType = Plane>
struct Net : Module<Net<Level, MeshType>> {
  template <class Style>
  using With = Styles<Style, Zero<Level, dp>>;

  explicit Net(const MeshType& mesh) : up(mesh, 3, 7), down(mesh, 7, 2), unit(up, down) {}
  auto forward(const auto& x) const {
    return unit(x, [&](const auto& in) { return down(tanh(up(in))); });
  }
  void visit(auto&& f) {
    f("up", up);
    f("down", down);
  }
  Linear<MeshType, With<ColwiseParallel<tp>>, double> up;
  Linear<MeshType, With<RowwiseParallel<tp>>, double> down;
  Unit unit;
};

/// Half a dozen samples, of which ranks along dp have some.
template <class Model>
auto loss_of(const Model& model, const Plane& mesh) {
  const auto x = randn<double, Shard<0>, Replicate>(mesh, Shape<2>{7, 3}, 1);
  const auto target = randn<double, Shard<0>, Replicate>(mesh, Shape<2>{7, 2}, 2);
  return [&model, x, target](Tape& tape) {
    return mse_loss(model(redistribute<tp, Reduced>(tape.constant(x))), tape.constant(target));
  };
}

template <class Model>
std::vector<double> values_of(Model& model) {
  std::vector<double> all;
  for_each_parameter(model, [&](const auto& parameter) {
    const auto whole = redistribute<Replicate, Replicate>(parameter.stored());
    all.insert(all.end(), whole.data(), whole.data() + elements(whole.shape()));
  });
  return all;
}

template <int Level>
std::vector<double> trained() {
  const auto mesh = plane();
  Net<Level> net(mesh);
  initialize(net, 1);
  Lbfgs lbfgs({.iterations = 6, .history = 4});
  const auto loss = loss_of(net, mesh);
  const double first = lbfgs.step(net, loss), second = lbfgs.step(net, loss);
  CHECK(second < first);
  CHECK(first < 0.9);
  return values_of(net);
}

TEST_CASE("the same steps in every layout, and on any number of ranks") {
  const std::vector<double> plain = trained<0>();
  const auto compare = [&](const std::vector<double>& other) {
    REQUIRE(other.size() == plain.size());
    for (std::size_t i = 0; i < plain.size(); ++i) CHECK(other[i] == doctest::Approx(plain[i]).epsilon(1e-6));
  };
  compare(trained<1>());
  compare(trained<2>());
  compare(trained<3>());
}

/// A vector and a function of it.
struct Vector : Module<Vector> {
  explicit Vector(const Mesh<tp>& mesh, Index size) : at(mesh, {size}, Init::constant(0)) {}
  void visit(auto&& f) { f("at", at); }
  Parameter<Tensor<double, 1, Mesh<tp>, Shard<0>>> at;
};

TEST_CASE("least squares: the dense solution") {
  // Of |a x - b|² the solution is that of aᵀa x = aᵀb.
  const Mesh<tp> mesh(world(), {any});
  const Index rows = 11, columns = 5;
  const auto a = randn<double, Shard<1>>(mesh, Shape<2>{rows, columns}, 1);
  const auto b = randn<double, Replicate>(mesh, Shape<2>{1, rows}, 2);
  Linear<Mesh<tp>, RowwiseParallel<tp>, double> x(mesh, columns, 1);
  initialize(x, 1);
  Lbfgs lbfgs({.iterations = 200});
  lbfgs.step(x, [&](Tape& tape) {
    const auto y = transpose(x(tape.constant(a)));
    return mse_loss(y, tape.constant(b));
  });
  Eigen::MatrixXd system(rows, columns + 1);
  system.leftCols(columns) = full_tensor(a);
  system.col(columns).setOnes();  // the bias
  const Eigen::VectorXd right = full_tensor(b).transpose();
  const Eigen::VectorXd solution =
      (system.transpose() * system).eval().ldlt().solve((system.transpose() * right).eval());
  const Eigen::MatrixXd found = full_tensor(x.weight.value());
  for (Index i = 0; i < columns; ++i) CHECK(found(0, i) == doctest::Approx(solution[i]).epsilon(1e-5));
}

TEST_CASE("Rosenbrock's valley") {
  const Mesh<tp> mesh(world(), {any});
  Vector v(mesh, 2);
  initialize(v, 1);
  Lbfgs lbfgs({.iterations = 200});
  // (1 - x)² + 100 (y - x²)²
  const auto valley = [&](Tape& tape) {
    const auto all =
        redistribute<Replicate>(alongside(v.at, tape.constant(zeros<double, Replicate>(mesh, {1}))));
    const auto x = narrow<0>(all, 0, 1), y = narrow<0>(all, 1, 1);
    const auto one = tape.constant(full<double, Replicate>(mesh, Shape<1>{1}, 1.));
    return add(mse_loss(x, one), scale(mse_loss(y, mul(x, x)), 100));
  };
  CHECK(lbfgs.step(v, valley) < 1e-12);
  const Eigen::VectorXd found = full_tensor(v.at.value());
  for (Index i = 0; i < 2; ++i) CHECK(found[i] == doctest::Approx(1).epsilon(1e-5));
}

TEST_CASE("L-BFGS: what it refuses") {
  const auto mesh = plane();
  CHECK_THROWS_WITH_AS(Lbfgs({.history = 0}),
                       "Lbfgs: iterations is 20, and history is 0: both must be 1 or more",
                       std::invalid_argument);
  Net<0> net(mesh), other(mesh);
  initialize(net, 1);
  initialize(other, 1);
  Lbfgs lbfgs({.iterations = 1});
  lbfgs.step(net, loss_of(net, mesh));
  CHECK_THROWS_WITH_AS(lbfgs.step(other, loss_of(other, mesh)),
                       "Lbfgs: the parameters are not those of the steps before", std::invalid_argument);
  clear_gradients(other);
  // A loss that is not finite changes nothing.
  const auto before = values_of(net);
  lbfgs.step(net, [&](Tape& tape) { return scale(loss_of(net, mesh)(tape), INFINITY); });
  CHECK(values_of(net) == before);
}

TEST_CASE("a loss that throws leaves the parameters where they were") {
  const auto mesh = plane();
  Net<0> net(mesh);
  initialize(net, 1);
  const auto throws_at = [&](int last) {
    return [&, last, calls = 0](Tape& tape) mutable {
      if (++calls == last) throw std::runtime_error("no more data");
      return loss_of(net, mesh)(tape);
    };
  };
  const auto before = values_of(net);
  CHECK_THROWS_WITH_AS(check_gradients(net, throws_at(2)), "no more data", std::runtime_error);  // above
  CHECK(values_of(net) == before);
  CHECK_THROWS_WITH_AS(check_gradients(net, throws_at(3)), "no more data", std::runtime_error);  // below
  CHECK(values_of(net) == before);
  Lbfgs lbfgs;
  CHECK_THROWS_WITH_AS(lbfgs.step(net, throws_at(1)), "no more data", std::runtime_error);
  CHECK_THROWS_WITH_AS(lbfgs.step(net, throws_at(2)), "no more data", std::runtime_error);
  CHECK(values_of(net) == before);
  Lbfgs one({.iterations = 1}), two({.iterations = 2});
  int calls = 0;
  one.step(net, [&](Tape& tape) { return ++calls, loss_of(net, mesh)(tape); });
  const auto after_one = values_of(net);
  initialize(net, 1);
  CHECK_THROWS_WITH_AS(two.step(net, throws_at(calls + 1)), "no more data", std::runtime_error);
  CHECK(values_of(net) == after_one);
  clear_gradients(net);
}

TEST_CASE("a dry step evaluates the loss once") {
  const auto plan = trace<Plane>({2, 2}, [](const Plane& mesh) {
    Net<0> net(mesh);
    CHECK(Lbfgs().step(net, loss_of(net, mesh)) == 0);
  });
  CHECK(plan.count(Collective::all_reduce, Phase::forward) >= 1);
}

template <int Level>
void check_net() {
  const auto mesh = plane();
  Net<Level> net(mesh);
  initialize(net, 1);
  const auto before = values_of(net);
  check_gradients(net, loss_of(net, mesh));
  CHECK(values_of(net) == before);
}
TEST_CASE("check_gradients: accepts right ones") {
  check_net<0>();
  check_net<1>();
  check_net<2>();
  check_net<3>();
}

/// y = x with twice its gradient.
struct WrongOp {
  static constexpr Signature signature = Signature::of("... -> ...");
  static constexpr Saved saved{};
  static void forward(auto y, void*, auto x) { kernel::copy(x.elements(), x.data, y.data); }
  static void pull_back(auto dy, auto, const void*, auto x) {
    kernel::scale(dy.elements(), 2, dy.data, x.gradient);
  }
};
TEST_CASE("check_gradients: finds a wrong one, and tells where") {
  const Mesh<tp> mesh(world(), {any});
  Vector v(mesh, 1);
  initialize(v, 1);
  const auto wrong = [&](Tape& tape) {
    const auto all = alongside(v.at, tape.constant(zeros<double, Replicate>(mesh, {1})));
    const auto ones = tape.constant(full<double, Shard<0>>(mesh, Shape<1>{1}, 1.));
    return mse_loss(apply(WrongOp(), all), ones);
  };
  std::string message;
  try {
    check_gradients(v, wrong);
  } catch (const std::logic_error& error) {
    message = error.what();
  }
  CHECK(message.find(
            "check_gradients: the gradient of 'at' at element 0 is -4, and its central difference is -2") ==
        0);
  clear_gradients(v);
  Linear<Mesh<tp>, ColwiseParallel<tp>, float> single(mesh, 2, 2);
  const auto zero = [&](Tape& tape) {
    const auto y = single(tape.constant(zeros<float, Reduced>(mesh, {1, 2})));
    return mse_loss(y, redistribute_like(tape.constant(zeros<float, Replicate>(mesh, {1, 2})), y));
  };
  CHECK_THROWS_WITH_AS(check_gradients(single, zero),
                       "check_gradients: 'weight' is of f32, and must be of f64", std::invalid_argument);
}

TEST_CASE("named_parameters") {
  const auto mesh = plane();
  Net<1> net(mesh);
  initialize(net, 1);
  std::vector<std::string> names;
  for (auto& [name, parameter] : named_parameters(net)) {
    names.push_back(name);
    CHECK(parameter.type() == DataType::f64);
    CHECK(parameter.trained());
    if (name == "up.weight") {
      CHECK(parameter.shape() == std::vector<Index>{7, 3});
      CHECK(parameter.layout() == "Reduced, Shard<0>");
      const auto block = net.up.weight.stored().view();
      CHECK(parameter.local_shape() == std::vector<Index>{block.size[0], 3});
      CHECK(parameter.local() == std::vector<double>(block.data, block.data + block.elements()));
    }
  }
  CHECK(names == std::vector<std::string>{"up.weight", "up.bias", "down.weight", "down.bias"});
  Linear<Plane, Styles<ColwiseParallel<tp>, Frozen>> frozen(mesh, 3, 2);
  CHECK_FALSE(named_parameters(frozen)[0].parameter.trained());
  CHECK_THROWS_AS(named_parameters(frozen)[0].parameter.local(), std::logic_error);
}

TEST_CASE("a second model with the same values") {
  const auto mesh = plane();
  Net<3> net(mesh), copy(mesh);
  initialize(net, 1);
  copy_parameters(net, copy);
  CHECK(values_of(copy) == values_of(net));
  Lbfgs().step(net, loss_of(net, mesh));
  CHECK(values_of(copy) != values_of(net));
}

}  // namespace
}  // namespace shardwise::testing::lbfgs
