// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Layers along one axis: what each communicates, forward and backward, and that results, gradients and
/// updated weights are those of a dense computation with Eigen.

#include <doctest/doctest.h>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/embedding.hpp>
#include <shardwise/nn/layer_norm.hpp>
#include <shardwise/nn/mlp.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/train/sgd.hpp>
#include <support/typed_redistribution.hpp>

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>

namespace sw = shardwise;
using sw::Index;
using sw::Partial;
using sw::Reduced;
using sw::Replicate;
using sw::Shard;
using sw::tp;
using sw::testing::kinds;

namespace {

using Mesh = sw::Mesh<tp>;
using Matrix = sw::RowMajorMatrix<double>;
using Colwise = sw::ColwiseParallel<tp>;
using Rowwise = sw::RowwiseParallel<tp>;

Mesh line() { return Mesh(sw::world(), {sw::any}); }

/// What a call and its pullback communicate: "forward / backward". The gradient of the result comes from
/// outside, so that no loss is among it.
template <class Module, class Input>
std::string collectives(const Module& module, Input make_input) {
  sw::Tape tape;
  auto x = make_input(tape);
  const sw::Recording recording(x.mesh());
  mpi_counter::reset();
  auto y = module(x);
  std::string line = kinds(recording.plan(), sw::Phase::forward) + " / ";
  using Y = sw::tensor_of<decltype(y)>;
  const auto gradient = sw::testing::typed_source<sw::cotangent_of<Y>>(y.mesh(), y.shape(), 3);
  sw::testing::arrive(tape, y, gradient);
  mpi_counter::reset();
  sw::testing::go_back(tape, y.mesh());
  return line + kinds(recording.plan(), sw::Phase::backward);
}

/// A layer with its first values, and inputs of [8, 16] or of tokens for it.
template <class Module>
std::string of_matrix(Module module, const Mesh& mesh, auto placement, bool gradient = true) {
  using In = decltype(placement);
  sw::initialize(module, 1);
  auto x = sw::randn<float, In>(mesh, {8, 16}, 2);
  if (gradient) return collectives(module, [&](sw::Tape& tape) { return tape.input(x); });
  return collectives(module, [&](sw::Tape& tape) { return tape.constant(x); });
}

double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
double gelu_slope(double x) {
  return 0.5 * (1 + std::erf(x / std::sqrt(2.0))) +
         x * std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
}

double error(const Matrix& a, const Matrix& b) { return (a - b).norm() / b.norm(); }

template <class Parameter>
Matrix dense(const Parameter& parameter) {
  return sw::full_tensor(parameter.value());
}

}  // namespace

TEST_CASE("linear layers") {
  const Mesh mesh = line();
  const bool several = mesh.size() > 1;
  auto expect = [&](const char* text) { return std::string(several ? text : " / "); };
  CHECK(of_matrix(sw::Linear<Mesh, Colwise>(mesh, 16, 16), mesh, Replicate{}) == expect(" / all_reduce 1"));
  CHECK(of_matrix(sw::Linear<Mesh, Colwise>(mesh, 16, 16), mesh, Replicate{}, false) == " / ");
  CHECK(of_matrix(sw::Linear<Mesh, Colwise>(mesh, 16, 16), mesh, Shard<0>{}) ==
        expect("all_gather 1 / reduce_scatter 1"));
  CHECK(of_matrix(sw::Linear<Mesh, sw::ColwiseParallel<tp, sw::output<Replicate>>>(mesh, 16, 16), mesh,
                  Reduced{}) == expect("all_gather 1 / "));
  CHECK(of_matrix(sw::Linear<Mesh, Rowwise>(mesh, 16, 16), mesh, Shard<1>{}) == expect("all_reduce 1 / "));
  CHECK(of_matrix(sw::Linear<Mesh, sw::RowwiseParallel<tp, sw::output<Shard<0>>>>(mesh, 16, 16), mesh,
                  Shard<1>{}) == expect("reduce_scatter 1 / all_gather 1"));
  CHECK(of_matrix(sw::Linear<Mesh>(mesh, 16, 16), mesh, Replicate{}) == " / ");
  CHECK(of_matrix(sw::Mlp<Mesh>(mesh, 16, 24), mesh, Replicate{}) == expect("all_reduce 1 / all_reduce 1"));
  CHECK(of_matrix(sw::Mlp<Mesh>(mesh, 16, 24), mesh, Replicate{}, false) == expect("all_reduce 1 / "));
}

TEST_CASE("embeddings, of a vocabulary that the ranks do not divide") {
  const Mesh mesh = line();
  const bool several = mesh.size() > 1;
  std::vector<std::int32_t> values;
  for (int i = 0; i < 24; ++i) values.push_back(i * 5 % 13);
  const auto ids = sw::distribute<Replicate>(mesh, sw::Shape<2>{3, 8}, std::span<const std::int32_t>(values));
  Matrix table;
  auto check = [&](auto embedding, const std::string& expected) {
    sw::initialize(embedding, 1);
    CHECK(collectives(embedding, [&](sw::Tape& tape) { return tape.constant(ids); }) == expected);
    table = dense(embedding.table);
    const Matrix found = sw::full_tensor(embedding(ids));
    for (Index i = 0; i < 24; ++i) CHECK(found.row(i) == table.row(values[static_cast<std::size_t>(i)]));
  };
  check(sw::Embedding<Mesh, Colwise, double>(mesh, 13, 16), " / ");
  check(sw::Embedding<Mesh, Rowwise, double>(mesh, 13, 16), several ? "all_reduce 1 / " : " / ");
  check(sw::Embedding<Mesh, sw::RowwiseParallel<tp, sw::output<Shard<1>>>, double>(mesh, 13, 16),
        several ? "reduce_scatter 1 / all_gather 1" : " / ");
}

TEST_CASE("layer norm with reduced parameters on a sharded sequence") {
  const Mesh mesh = line();
  using Gain = sw::Tensor<float, 1, Mesh, Reduced>;
  sw::Parameter<Gain> weight(mesh, {12}, sw::Init::constant(1)), bias(mesh, {12}, sw::Init::constant(0));
  weight.initialize(1);
  bias.initialize(1);
  const auto x = sw::randn<float, Shard<1>>(mesh, {20, 32, 12}, 2);
  auto norm = [&](const auto& in) { return sw::layer_norm(in, weight, bias, 1e-5); };
  CHECK(collectives(norm, [&](sw::Tape& tape) { return tape.input(x); }) == " / ");
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(weight.gradient())>,
                               sw::Tensor<float, 1, Mesh, Partial<>>>);
  CHECK(static_cast<bool>(weight.gradient()));
}

TEST_CASE("the bias of a row-wise layer is added once") {
  const Mesh mesh = line();
  sw::Linear<Mesh, Rowwise, double> down(mesh, 16, 5);
  sw::initialize(down, 1);
  const auto y = sw::full_tensor(down(sw::zeros<double, Shard<1>>(mesh, {2, 16})));
  const Eigen::VectorXd bias = sw::full_tensor(down.bias.value());
  CHECK((y.row(0).transpose() - bias).norm() < 1e-15);
  // Also where the sum stays pending, and is scattered.
  sw::Linear<Mesh, sw::RowwiseParallel<tp, sw::output<Shard<1>>>, double> scattered(mesh, 16, 5);
  sw::initialize(scattered, 1);
  CHECK(sw::full_tensor(scattered(sw::zeros<double, Shard<1>>(mesh, {2, 16}))) == y);
}

TEST_CASE("an MLP's results, gradients and weights after a step of SGD are the dense ones") {
  const Mesh mesh = line();
  sw::Mlp<Mesh, double> mlp(mesh, 10, 16);
  sw::initialize(mlp, 1);
  const Matrix w1 = dense(mlp.up.weight), w2 = dense(mlp.down.weight);
  const Eigen::VectorXd b1 = sw::full_tensor(mlp.up.bias.value()),
                        b2 = sw::full_tensor(mlp.down.bias.value());
  const auto x = sw::randn<double, Replicate>(mesh, {8, 10}, 2);
  const auto target = sw::randn<double, Replicate>(mesh, {8, 10}, 3);

  // loss = Σ y · target, so the gradient of y is the target.
  sw::Tape tape;
  auto input = tape.input(x);
  auto y = mlp(input);
  tape.backward(sw::sum(sw::mul(y, tape.constant(target))));
  sw::SGD sgd({.rate = 0.1});
  sgd.step(mlp);

  const Matrix in = x.local(), dy = target.local();
  const Matrix h = (in * w1.transpose()).rowwise() + b1.transpose();
  const Matrix a = h.unaryExpr(&gelu);
  const Matrix out = (a * w2.transpose()).rowwise() + b2.transpose();
  const Matrix dh = (dy * w2).cwiseProduct(h.unaryExpr(&gelu_slope));
  CHECK(error(y.value().local(), out) < 1e-13);
  CHECK(error(sw::full_tensor(input.gradient()), dh * w1) < 1e-13);
  CHECK(error(dense(mlp.up.weight), w1 - 0.1 * dh.transpose() * in) < 1e-13);
  CHECK(error(dense(mlp.down.weight), w2 - 0.1 * dy.transpose() * a) < 1e-13);
  CHECK(error(dense(mlp.up.bias), b1 - 0.1 * dh.colwise().sum().transpose()) < 1e-13);
  CHECK(error(dense(mlp.down.bias), b2 - 0.1 * dy.colwise().sum().transpose()) < 1e-13);
  CHECK_FALSE(static_cast<bool>(mlp.up.weight.gradient()));  // the step clears it
}
