// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Fits a Gaussian process to noisy samples of a sine, by the gradient of the likelihood. The rows of its kernel matrix are
/// cut over all ranks. Prints the standard deviation of the noise, and a prediction.

#include <cmath>
#include <cstdio>

#include <shardwise/linalg/cholesky_factor.hpp>
#include <shardwise/shardwise.hpp>

namespace sw = shardwise;
using Mesh = sw::Mesh<sw::dp>;

double place(sw::Index i, sw::Index count) { return 6 * static_cast<double>(i) / static_cast<double>(count); }
double square(double s, double t) { return (s - t) * (s - t); }

/// f(place of the row, place of the column): each rank computes its own rows.
auto table(const Mesh& mesh, sw::Index rows, sw::Index columns, auto f) {
  sw::Tensor<double, 2, Mesh, sw::Shard<0>> x(mesh, {rows, columns});
  const auto own = x.writable();
  for (sw::Index i = 0; i < own.elements(); ++i)
    own.data[i] = f(place(own.begin[0] + i / columns, rows), place(i % columns, columns));
  return x;
}

/// Covariances of samples from their squared distances d. It learns the logarithms of its parameters.
struct Kernel : sw::Module<Kernel> {
  sw::Parameter<sw::Tensor<double, 0, Mesh, sw::Reduced>> length, noise;
  explicit Kernel(const Mesh& m, sw::Init at = sw::Init::constant(0)) : length(m, {}, at), noise(m, {}, at) {}
  auto forward(const auto& d) const { return exp(d * (-0.5 * exp(-2 * alongside(length, d)))); }
  auto forward(const auto& d, const auto& i) const { return (*this)(d) + i * exp(2 * alongside(noise, d)); }
  void visit(auto&& f) { f("length", length), f("noise", noise); }
};

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    if (argc > 1) throw std::invalid_argument(std::string(argv[1]) + ": gaussian_process takes no arguments");
    const Mesh mesh(sw::world(), {sw::any});
    const auto d = table(mesh, 300, 300, square), identity = table(mesh, 300, 300, std::equal_to());
    const auto y = table(mesh, 300, 1, [](double s, double) { return sin(s) + 0.3 * sin(1e5 * s); });
    Kernel kernel(mesh);
    sw::initialize(kernel, 1);
    sw::AdamW adamw({.rate = 0.1, .weight_decay = 0});
    for (int step = 0; step < 80; ++step) {
      sw::Tape tape;
      const auto data = tape.constant(y);
      const sw::CholeskyFactor factor(kernel(tape.constant(d), tape.constant(identity)));
      const auto fit = sw::redistribute<sw::Replicate>(sw::sum(data * factor.solve(data)));
      tape.backward(0.5 * (fit + factor.log_determinant()));
      adamw.step(kernel);
    }
    const auto weights = sw::CholeskyFactor(kernel(d, identity)).solve(y);
    const auto mean = sw::matrix_product<sw::Replicate>(kernel(table(mesh, 6, 300, square)), weights);
    if (mesh.rank() != 0) return;
    std::printf("noise %.2f, sin(2) %.2f\n", std::exp(sw::item(kernel.noise)), mean.data()[2]);
  });
}
