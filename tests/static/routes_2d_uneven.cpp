// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Every route between any two layouts of a matrix on meshes whose two axes differ in size, with uneven and
/// empty blocks, simulated in the compiler. The run-time tests add pending maxima and minima.

#include "examine.hpp"

namespace shardwise::testing {
namespace {

using Matrix = Shape<2>;

constexpr auto layouts = all_layouts<16>(2, 2, {replicate, partial_sum});
static_assert(layouts.count == 16);

template <int Outer, int Inner>
constexpr auto examined(const Matrix& shape) {
  return examine(layouts, 2, Scene<2, Outer * Inner, 2, 16>(MeshSizes{Outer, Inner}, shape));
}

constexpr auto on_2x3 = examined<2, 3>(Matrix{5, 2});
static_assert(on_2x3.all_right());
static_assert(no_cheaper_detour(on_2x3));

constexpr auto on_3x2 = examined<3, 2>(Matrix{4, 3});
static_assert(on_3x2.all_right());
static_assert(no_cheaper_detour(on_3x2));

// An axis of one rank, and blocks of which most are empty.
constexpr auto on_1x2 = examined<1, 2>(Matrix{3, 1});
static_assert(on_1x2.all_right());
static_assert(no_cheaper_detour(on_1x2));

}  // namespace
}  // namespace shardwise::testing
