// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Single steps: `single_step` offers one exactly where trying every collective over every set of axes finds
/// one that is right on all shapes, and no cheaper one is right.

#include <doctest/doctest.h>

#include "../static/examine.hpp"

namespace shardwise::testing {
namespace {

template <std::size_t Capacity, class... Scenes>
int count_differences(const Layouts<Capacity>& layouts, const Scenes&... scenes) {
  int differences = 0;
  for (const Layout& from : layouts) {
    for (const Layout& to : layouts) {
      if (should_be_possible(from, to)) differences += !single_step_is_best(from, to, scenes...);
    }
  }
  return differences;
}

using Matrix = Shape<2>;

TEST_CASE("two axes") {
  auto layouts = all_layouts<49>(2, 2, {replicate, reduced, partial_sum, partial_max, partial_min});
  CHECK(layouts.count == 43);
  MeshSizes two_by_two{2, 2}, two_by_three{2, 3}, three_by_two{3, 2}, one_by_three{1, 3};
  using Four = Scene<2, 4, 2, 48>;
  using Six = Scene<2, 6, 2, 48>;
  using Three = Scene<2, 3, 2, 48>;
  CHECK(count_differences(layouts, Four(two_by_two, Matrix{5, 7}), Four(two_by_two, Matrix{7, 5})) == 0);
  CHECK(count_differences(layouts, Six(two_by_three, Matrix{5, 7}), Six(two_by_three, Matrix{7, 5})) == 0);
  CHECK(count_differences(layouts, Six(three_by_two, Matrix{5, 7}), Six(three_by_two, Matrix{7, 5})) == 0);
  CHECK(count_differences(layouts, Three(one_by_three, Matrix{5, 7}), Three(one_by_three, Matrix{7, 5})) ==
        0);
}

// Sizes that differ: on 2×2×2, [S0, R, S0] could become [R, S0, S0] along the first axis alone, because the
// second cuts into as many blocks. Steps do not count on such coincidences.
TEST_CASE("three axes") {
  auto layouts = all_layouts<125>(3, 2, {replicate, partial_sum, partial_max});
  MeshSizes two_three_four{2, 3, 4}, four_two_three{4, 2, 3};
  using Scene24 = Scene<3, 24, 2, 64>;
  CHECK(count_differences(layouts, Scene24(two_three_four, Matrix{5, 11}),
                          Scene24(two_three_four, Matrix{11, 5})) == 0);
  CHECK(count_differences(layouts, Scene24(four_two_three, Matrix{5, 11}),
                          Scene24(four_two_three, Matrix{11, 5})) == 0);
}

}  // namespace
}  // namespace shardwise::testing
