// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Every route between any two layouts of a matrix on meshes with two axes, simulated in the compiler.

#include "examine.hpp"

namespace shardwise::testing {
namespace {

using Matrix = std::array<Index, 2>;

// Pending minima take the same paths as pending maxima; `routes.cpp` has both.
constexpr auto layouts = all_layouts<34>(2, 2, {replicate, reduced, partial_sum, partial_max});
static_assert(layouts.count == 34);

template <int Outer, int Inner, class... Shapes>
constexpr auto examined(const Shapes&... shapes) {
  constexpr std::size_t ranks = Outer * Inner;
  return examine(layouts, 2, Scene<2, ranks, 2, 16>(MeshSizes{Outer, Inner}, shapes)...);
}

constexpr auto on_2x2 = examined<2, 2>(Matrix{5, 3});
static_assert(on_2x2.all_right());
static_assert(no_cheaper_detour(on_2x2));

constexpr auto on_2x3 = examined<2, 3>(Matrix{5, 2});
static_assert(on_2x3.all_right());
static_assert(no_cheaper_detour(on_2x3));

constexpr auto on_3x2 = examined<3, 2>(Matrix{4, 3});
static_assert(on_3x2.all_right());
static_assert(no_cheaper_detour(on_3x2));

constexpr auto on_1x2 = examined<1, 2>(Matrix{3, 1});
static_assert(on_1x2.all_right());
static_assert(no_cheaper_detour(on_1x2));

}  // namespace
}  // namespace shardwise::testing
