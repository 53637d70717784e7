// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Training on meshes, in bfloat16 with float masters: parameters whole, and fully sharded.

#include "meshes_check.hpp"

namespace shardwise::testing::meshes_bfloat16 {

TEST_CASE("bfloat16: one rank's losses and norms on every mesh, as far as its digits go") {
  shardwise::testing::check_levels<Eigen::bfloat16, 0, 3>(6);  // rounding grows from step to step
}

}  // namespace shardwise::testing::meshes_bfloat16
