// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Multiplies two matrices that are distributed in blocks. static_asserts prove its communication on 16 ranks. Prints the
/// communication of the run beside that plan, and the sum of the squares of the result.

#include <cstdio>

#include <shardwise/shardwise.hpp>

namespace sw = shardwise;

struct rows {
  static constexpr const char* name = "rows";
};
struct columns {
  static constexpr const char* name = "columns";
};
using Grid = sw::Mesh<rows, columns>;

// The type states the layout: `rows` cuts dimension 0 of a matrix, `columns` cuts dimension 1.
using Matrix = sw::Tensor<double, 2, Grid, sw::Shard<0>, sw::Shard<1>>;

constexpr Matrix multiply(const Grid& mesh) {
  const Matrix a = sw::randn<double, sw::Shard<0>, sw::Shard<1>>(mesh, {1024, 512}, 1);
  const Matrix b = sw::randn<double, sw::Shard<0>, sw::Shard<1>>(mesh, {512, 1024}, 2);
  return sw::matrix_product<sw::Shard<0>, sw::Shard<1>>(a, b);
}

// The same function on a mesh of 4 x 4 ranks, inside the compiler: each rank gathers 256 rows of a and 256 columns of b.
constexpr auto planned = sw::trace<Grid>({4, 4}, multiply);
static_assert(planned.count(sw::Collective::all_gather) == 2 && planned.collectives() == 2);
static_assert(planned.bytes() == 2 * 256 * 512 * sizeof(double));

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    if (argc > 1) throw std::invalid_argument(std::string(argv[1]) + ": matrix_product takes no arguments");
    const Grid mesh(sw::world(), {sw::any, sw::world().size() % 2 == 0 ? 2 : 1});
    sw::Recording recording(mesh);
    const Matrix c = multiply(mesh);
    const auto table = sw::plan_table("this run", recording.plan(), "4 x 4", planned);
    const auto squares = sw::item(sw::redistribute<sw::Replicate, sw::Replicate>(sw::sum_of_squares(c)));
    if (mesh.rank() == 0) std::printf("%ssum of squares %.3f\n", table.c_str(), squares);
  });
}
