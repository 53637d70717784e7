// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Optimizers against their formulas, on parameters in every layout; what each finishes first, and what it
/// leaves alone.

#include <doctest/doctest.h>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/sgd.hpp>
#include <support/mpi_counter.hpp>

#include <cmath>
#include <vector>

namespace shardwise::testing::optim {
namespace sw = shardwise;
using sw::Index;
using sw::Partial;
using sw::Reduced;
using sw::Replicate;
using sw::Shard;
using sw::tp;

namespace {

using Mesh = sw::Mesh<tp>;
using Vector = Eigen::VectorXd;
constexpr Index size = 11;

Mesh line() { return Mesh(sw::world(), {sw::any}); }

template <class P>
using Weight = sw::Parameter<sw::Tensor<double, 1, Mesh, P>>;

/// A module of two parameters that somebody else holds.
template <class First, class Second>
struct Both {
  First& first;
  Second& second;
  void visit(auto&& f) {
    f("first", first);
    f("second", second);
  }
};
template <class First, class Second>
Both(First&, Second&) -> Both<First, Second>;

Vector gradient_of_step(int step) {
  Vector g(size);
  for (Index i = 0; i < size; ++i)
    g[i] = std::sin(static_cast<double>(3 * step + i)) * std::pow(10.0, static_cast<double>(i % 5) - 2);
  return g;
}

/// The weight after some steps whose gradients are `gradient_of_step`.
template <class P, class Optimizer>
Vector trained(Optimizer optimizer, int steps) {
  const Mesh mesh = line();
  Weight<P> weight(mesh, {size}, sw::Init::normal(1));
  weight.initialize(1);
  using Gradient = std::remove_cvref_t<decltype(weight.gradient())>;
  for (int step = 0; step < steps; ++step) {
    auto whole = sw::distribute<Replicate>(mesh, gradient_of_step(step));
    weight.slot()->add(sw::redistribute_to<Gradient>(whole));
    optimizer.step(weight);
    CHECK_FALSE(static_cast<bool>(weight.gradient()));
  }
  CHECK(optimizer.steps() == steps);
  return sw::full_tensor(weight.value());
}

Vector first_value() { return sw::full_tensor(sw::randn<double, Replicate>(line(), {size}, 1)); }

double error(const Vector& a, const Vector& b) { return (a - b).norm() / b.norm(); }

}  // namespace

TEST_CASE_TEMPLATE("SGD with momentum", P, Shard<0>, Replicate, Reduced) {
  Vector w = first_value(), plain = w, velocity = Vector::Zero(size);
  for (int step = 0; step < 4; ++step) {
    velocity = 0.9 * velocity + gradient_of_step(step);
    w -= 0.05 * velocity;
    plain -= 0.05 * gradient_of_step(step);
  }
  CHECK(error(trained<P>(sw::SGD({.rate = 0.05, .momentum = 0.9}), 4), w) < 1e-14);
  CHECK(error(trained<P>(sw::SGD({.rate = 0.05}), 4), plain) < 1e-14);
}

TEST_CASE_TEMPLATE("AdamW", P, Shard<0>, Replicate, Reduced) {
  const sw::AdamWUpdate settings{
      .rate = 0.02, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 0.3};
  Vector w = first_value(), m = Vector::Zero(size), v = m;
  for (int step = 1; step <= 5; ++step) {
    const Vector g = gradient_of_step(step - 1);
    w *= 1 - settings.rate * settings.weight_decay;
    m = 0.8 * m + 0.2 * g;
    v = 0.95 * v + 0.05 * g.cwiseProduct(g);
    const Vector mean = m / (1 - std::pow(0.8, step)), variance = v / (1 - std::pow(0.95, step));
    w.array() -= 0.02 * mean.array() / (variance.array().sqrt() + 1e-3);
  }
  CHECK(error(trained<P>(sw::AdamW(settings), 5), w) < 1e-13);
}

TEST_CASE("a pending gradient is summed once, and only that communicates") {
  const Mesh mesh = line();
  Weight<Reduced> reduced(mesh, {size}, sw::Init::constant(1));
  Weight<Shard<0>> sharded(mesh, {size}, sw::Init::constant(1));
  reduced.initialize(1);
  sharded.initialize(1);
  const Vector ones = Vector::Ones(size);
  for (int micro_batch = 0; micro_batch < 3; ++micro_batch) {
    reduced.slot()->add(sw::from_local<Partial<>>(mesh, ones));  // each rank brings its own samples' term
    sharded.slot()->add(sw::distribute<Shard<0>>(mesh, ones));
  }
  Both both{reduced, sharded};
  mpi_counter::reset();
  sw::SGD sgd({.rate = 0.1});
  sgd.step(both);
  if (mpi_counter::counting()) CHECK(mpi_counter::counts().all_reduce.calls == (mesh.size() > 1 ? 1 : 0));
  if (mpi_counter::counting()) CHECK(mpi_counter::counts().data_calls() == (mesh.size() > 1 ? 1 : 0));
  CHECK(error(sw::full_tensor(reduced.value()), (1 - 0.3 * mesh.size()) * ones) < 1e-14);
  CHECK(error(sw::full_tensor(sharded.value()), 0.7 * ones) < 1e-14);
}

TEST_CASE("an optimizer is for one module") {
  const Mesh mesh = line();
  sw::AdamW adamw;
  auto step = [&](auto& weight, Index extent) {
    weight.slot()->add(sw::distribute<Replicate>(mesh, Vector::Ones(extent).eval()));
    adamw.step(weight);
  };
  Weight<Replicate> first(mesh, {size}, sw::Init::constant(1)),
      second(mesh, {size + 1}, sw::Init::constant(1));
  first.initialize(1);
  second.initialize(1);
  step(first, size);
  step(first, size);
  CHECK_THROWS_WITH_AS(step(second, size + 1),
                       "an optimizer is for one module: parameter 0 is not the one of the steps before",
                       std::invalid_argument);
}

TEST_CASE("a parameter without a gradient is left as it is, and keeps its own state") {
  const Mesh mesh = line();
  Weight<Replicate> first(mesh, {size}, sw::Init::constant(1)), second(mesh, {size}, sw::Init::constant(1));
  first.initialize(1);
  second.initialize(1);
  Both both{first, second};
  const Vector ones = Vector::Ones(size);
  auto give = [&](Weight<Replicate>& to) { to.slot()->add(sw::distribute<Replicate>(mesh, ones)); };
  sw::SGD sgd({.rate = 1, .momentum = 0.5, .may_be_unused = true});
  give(second);
  sgd.step(both);
  CHECK(first.value().local() == ones);
  CHECK(second.value().local() == 0 * ones);
  give(first);
  sgd.step(both);  // its velocity starts from nothing
  CHECK(first.value().local() == 0 * ones);
  CHECK(second.value().local() == 0 * ones);
  give(second);
  sgd.step(both);
  CHECK(second.value().local() == -1.5 * ones);
  sgd.settings().rate = 0;
  give(second);
  sgd.step(both);
  CHECK(second.value().local() == -1.5 * ones);
}

}  // namespace shardwise::testing::optim
