// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Training on meshes, in float: gradients and state sharded, and parameters too.

#include "meshes_check.hpp"

namespace shardwise::testing::meshes_sharded_float {

TEST_CASE("sharded gradients, and fully sharded: one rank's losses and norms on every mesh") {
  shardwise::testing::check_levels<float, 2, 3>();
}

}  // namespace shardwise::testing::meshes_sharded_float
