// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Fits a polynomial to noisy samples that are spread over all ranks, by a thin QR factorization; static_asserts check its
/// communication on 64 ranks. Prints the coefficients.

#include <cmath>
#include <cstdio>

#include <shardwise/linalg/lstsq.hpp>
#include <shardwise/shardwise.hpp>

namespace sw = shardwise;

constexpr sw::Index degree = 3, samples = 1 << 16;

/// Samples of 1 - 2t + 3t³ with noise, at times in [0, 1]: each rank makes its own rows [1, t, t², t³], and the values.
template <class Mesh>
auto measure(const Mesh& mesh) {
  sw::Tensor<double, 2, Mesh, sw::Shard<0>> powers(mesh, {samples, degree + 1});
  auto values = sw::scale(sw::randn<double, sw::Shard<0>>(mesh, {samples, 1}, 1), 0.1);
  const auto rows = powers.writable(), results = values.writable();
  for (sw::Index i = 0; i < rows.size[0]; ++i) {
    const double t = static_cast<double>(rows.begin[0] + i) / samples;
    for (sw::Index j = 0; j <= degree; ++j) rows.data[i * (degree + 1) + j] = std::pow(t, j);
    results.data[i] += 1 - 2 * t + 3 * t * t * t;
  }
  return std::pair(powers, values);
}

// Two factorizations of the columns' products, and the products with the values: three all-reduces of a few numbers.
constexpr auto planned = sw::trace<sw::Mesh<sw::tp>>({64}, [](const auto& mesh) {
  sw::lstsq(sw::empty<double, sw::Shard<0>>(mesh, {samples, degree + 1}),
            sw::empty<double, sw::Shard<0>>(mesh, {samples, 1}));
});
static_assert(planned.count(sw::Collective::all_reduce) == planned.collectives());
static_assert(planned.bytes() < 1024);

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    if (argc > 1) throw std::invalid_argument(std::string(argv[1]) + ": least_squares takes no arguments");
    const sw::Mesh<sw::tp> mesh(sw::world(), {sw::any});
    const auto [powers, values] = measure(mesh);
    const auto coefficients = sw::lstsq(powers, values);  // whole on every rank
    if (mesh.rank() != 0) return;
    for (sw::Index j = 0; j <= degree; ++j) std::printf("t^%td: %.2f\n", j, coefficients.data()[j]);
  });
}
