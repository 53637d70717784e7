// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Training on meshes, in float: parameters whole.

#include "meshes_check.hpp"

namespace shardwise::testing::meshes_whole_float {

TEST_CASE("data parallel, and sharded optimizer state: one rank's losses and norms on every mesh") {
  shardwise::testing::check_levels<float, 0, 1>();
}

}  // namespace shardwise::testing::meshes_whole_float
