// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Every route between any two layouts of a matrix on a 2×2 mesh, simulated in the compiler.

#include "examine.hpp"

namespace shardwise::testing {
namespace {

using Matrix = Shape<2>;
using Scene2x2 = Scene<2, 4, 2, 16>;
constexpr MeshSizes sizes{2, 2};

// Pending minima take the same paths as pending maxima; `routes.cpp` has both.
constexpr auto layouts = all_layouts<34>(2, 2, {replicate, reduced, partial_sum, partial_max});
static_assert(layouts.count == 34);

constexpr auto found = examine(layouts, 2, Scene2x2(sizes, Matrix{5, 3}));
static_assert(found.all_right());
static_assert(no_cheaper_detour(found));

}  // namespace
}  // namespace shardwise::testing
