// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Every route between any two layouts on meshes with three axes, and some with four: the same examination
/// that the compiler makes for fewer axes, where there are too many pairs for it.

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>

#include <shardwise/layout/layout.hpp>

#include "../static/examine.hpp"

namespace shardwise::testing {
namespace {

template <int Axes, std::size_t Ranks, int Rank, std::size_t Capacity>
void check_all_routes(const MeshSizes& sizes, const Shape<Rank>& shape,
                      std::initializer_list<Placement> placements) {
  auto layouts = all_layouts<Capacity>(Axes, Rank, placements);
  REQUIRE(group_size(sizes, Axes, ~0u) == Ranks);
  Scene<Axes, Ranks, Rank, 48> scene(sizes, shape);
  auto found = std::make_unique<Findings<Capacity>>(examine(layouts, Rank, scene));
  CHECK(found->all_right());
  if (found->wrong_from >= 0) {
    FAIL_CHECK(detail::text_of(layouts[static_cast<std::size_t>(found->wrong_from)]), " -> ",
               detail::text_of(layouts[static_cast<std::size_t>(found->wrong_to)]));
  }
  CHECK(no_cheaper_detour(*found));
}

using Vector = Shape<1>;
using Matrix = Shape<2>;
using Cube = Shape<3>;

TEST_CASE("three axes, a vector, all placements") {
  auto all = {replicate, reduced, partial_sum, partial_max, partial_min};
  check_all_routes<3, 8, 1, 216>({2, 2, 2}, Vector{11}, all);
  check_all_routes<3, 12, 1, 216>({2, 3, 2}, Vector{17}, all);
  check_all_routes<3, 6, 1, 216>({3, 1, 2}, Vector{4}, all);
}

TEST_CASE("three axes, a matrix") {
  auto all = {replicate, reduced, partial_sum, partial_max};
  auto data = {replicate, partial_sum, partial_max};
  check_all_routes<3, 8, 2, 216>({2, 2, 2}, Matrix{5, 3}, all);
  check_all_routes<3, 12, 2, 125>({2, 3, 2}, Matrix{7, 5}, data);
  check_all_routes<3, 12, 2, 125>({3, 2, 2}, Matrix{5, 7}, data);
  check_all_routes<3, 12, 2, 125>({2, 2, 3}, Matrix{3, 13}, data);
  check_all_routes<3, 6, 2, 125>({2, 1, 3}, Matrix{5, 4}, data);
}

TEST_CASE("three axes, three dimensions") {
  auto data = {replicate, partial_sum};
  check_all_routes<3, 8, 3, 125>({2, 2, 2}, Cube{3, 5, 2}, data);
  check_all_routes<3, 12, 3, 125>({2, 3, 2}, Cube{5, 3, 3}, data);
}

TEST_CASE("two axes, matrices, all placements") {
  auto all = {replicate, reduced, partial_sum, partial_max, partial_min};
  check_all_routes<2, 4, 2, 49>({2, 2}, Matrix{5, 3}, all);
  check_all_routes<2, 2, 2, 49>({1, 2}, Matrix{3, 1}, all);
  check_all_routes<2, 6, 2, 49>({2, 3}, Matrix{5, 2}, all);
  check_all_routes<2, 6, 2, 49>({3, 2}, Matrix{4, 3}, all);
  check_all_routes<2, 6, 2, 49>({2, 3}, Matrix{5, 7}, all);
  check_all_routes<2, 6, 2, 49>({3, 2}, Matrix{7, 5}, all);
  check_all_routes<2, 8, 2, 49>({4, 2}, Matrix{9, 5}, all);
  check_all_routes<2, 4, 2, 49>({1, 4}, Matrix{3, 6}, all);
  check_all_routes<2, 12, 3, 64>({3, 4}, Cube{4, 3, 4}, all);
}

TEST_CASE("four axes, a vector") {
  auto data = {replicate, partial_sum};
  check_all_routes<4, 16, 1, 81>({2, 2, 2, 2}, Vector{19}, data);
  check_all_routes<4, 12, 1, 81>({3, 2, 1, 2}, Vector{13}, data);
}

TEST_CASE("four axes, a matrix") {
  check_all_routes<4, 16, 2, 81>({2, 2, 2, 2}, Matrix{5, 7}, {replicate});
  Scene<4, 16, 2, 48> scene({2, 2, 2, 2}, Matrix{5, 7});
  Placement s0 = shard(0), s1 = shard(1), p = partial_sum, r = replicate;
  const std::pair<Layout, Layout> cases[] = {
      {{p, p, p, p}, {r, r, r, r}},     {{p, p, p, p}, {s0, s1, s0, s1}}, {{p, s0, p, s1}, {s0, s0, s1, s1}},
      {{s0, p, s0, p}, {p, s0, p, s0}}, {{s1, s1, p, p}, {s0, r, s0, r}}, {{r, p, s0, s1}, {s1, r, r, p}},
  };
  for (const auto& ends : cases) {
    const Layout &from = ends.first, &to = ends.second;
    CAPTURE(detail::text_of(from));
    CAPTURE(detail::text_of(to));
    Route way = route(from, to, 2, scene.sizes());
    CHECK(way.possible);
    CHECK(consistent(from, to, way, 2, scene.sizes()));
    CHECK(scene.right(from, scene.distributed(from), way));
  }
  CHECK(route(cases[0].first, cases[0].second, 2, scene.sizes()).calls() == 1);
  CHECK(route(cases[1].first, cases[1].second, 2, scene.sizes()).calls() == 1);
}

// Tensors of any rank have routes: the search has no limit to outgrow.
TEST_CASE("a tensor of five dimensions on four axes") {
  Layout from{partial_sum, shard(3), partial_sum, shard(4)}, to{shard(3), shard(3), replicate, partial_sum};
  Route way = route(from, to, 5, {2, 2, 2, 2});
  CHECK(way.possible);
  CHECK(consistent(from, to, way, 5, {2, 2, 2, 2}));
}

}  // namespace
}  // namespace shardwise::testing
