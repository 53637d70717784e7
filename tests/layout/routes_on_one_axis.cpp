// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Every route between any two layouts along one mesh axis, simulated.

#include <doctest/doctest.h>

#include "../static/examine.hpp"

namespace shardwise::testing {
namespace {

constexpr auto vectors = all_layouts<6>(1, 1, {replicate, reduced, partial_sum, partial_max, partial_min});
constexpr auto matrices = all_layouts<7>(1, 2, {replicate, reduced, partial_sum, partial_max, partial_min});
constexpr auto cubes = all_layouts<8>(1, 3, {replicate, reduced, partial_sum, partial_max, partial_min});
static_assert(vectors.count == 6 && matrices.count == 7 && cubes.count == 8);

template <std::size_t W, int Rank, class... Shapes>
constexpr bool routes_are_right(const auto& layouts, const Shapes&... shapes) {
  MeshSizes sizes{static_cast<int>(W)};
  auto found = examine(layouts, Rank, Scene<1, W, Rank, 30>(sizes, shapes)...);
  return found.all_right() && no_cheaper_detour(found);
}

template <std::size_t W, int Rank, class... Shapes>
constexpr bool single_steps_are_best(const auto& layouts, const Shapes&... shapes) {
  MeshSizes sizes{static_cast<int>(W)};
  for (const Layout& from : layouts) {
    for (const Layout& to : layouts) {
      if (!should_be_possible(from, to)) continue;
      if (!single_step_is_best(from, to, Scene<1, W, Rank, 30>(sizes, shapes)...)) return false;
    }
  }
  return true;
}

using Vector = Shape<1>;
using Matrix = Shape<2>;
using Cube = Shape<3>;

TEST_CASE("one axis: even, uneven and empty blocks") {
  CHECK(routes_are_right<1, 1>(vectors, Vector{3}, Vector{1}));
  CHECK(routes_are_right<2, 1>(vectors, Vector{4}, Vector{3}, Vector{1}));
  CHECK(routes_are_right<3, 1>(vectors, Vector{3}, Vector{7}, Vector{2}));
  CHECK(routes_are_right<4, 1>(vectors, Vector{8}, Vector{5}, Vector{2}));

  CHECK(routes_are_right<1, 2>(matrices, Matrix{5, 3}, Matrix{1, 2}));
  CHECK(routes_are_right<2, 2>(matrices, Matrix{5, 3}, Matrix{4, 2}, Matrix{1, 3}));
  CHECK(routes_are_right<3, 2>(matrices, Matrix{5, 3}, Matrix{3, 2}, Matrix{2, 1}));
  CHECK(routes_are_right<4, 2>(matrices, Matrix{5, 3}, Matrix{4, 4}, Matrix{3, 2}));

  CHECK(routes_are_right<1, 3>(cubes, Cube{2, 3, 2}));
  CHECK(routes_are_right<2, 3>(cubes, Cube{3, 2, 1}, Cube{2, 4, 3}));
  CHECK(routes_are_right<3, 3>(cubes, Cube{5, 3, 2}, Cube{2, 1, 4}));
  CHECK(routes_are_right<4, 3>(cubes, Cube{5, 2, 3}));
}

// Along one axis every change that is possible is a single step, and the cheapest collective does it.
TEST_CASE("one axis: single steps") {
  CHECK(single_steps_are_best<1, 2>(matrices, Matrix{5, 3}));
  CHECK(single_steps_are_best<2, 2>(matrices, Matrix{5, 3}, Matrix{4, 4}));
  CHECK(single_steps_are_best<3, 2>(matrices, Matrix{5, 3}, Matrix{4, 7}));
}

// 12, 13 and 14 rows over four ranks, and both ways between rows and columns.
TEST_CASE("one axis: all changes of a matrix on four ranks") {
  constexpr Placement s0 = shard(0), s1 = shard(1);
  for (const Matrix& shape : {Matrix{12, 3}, Matrix{13, 3}, Matrix{14, 3}, Matrix{3, 12}, Matrix{3, 13},
                              Matrix{3, 14}, Matrix{8, 5}, Matrix{5, 8}, Matrix{5, 5}}) {
    const Scene<1, 4, 2, 64> wide({4}, shape);
    for (Placement from : {s0, s1, replicate, partial_sum}) {
      for (Placement to : {s0, s1, replicate, reduced, partial_sum}) {
        CHECK(wide.right({from}, wide.distributed({from}), route({from}, {to}, 2, {4})));
      }
    }
  }
}

}  // namespace
}  // namespace shardwise::testing
