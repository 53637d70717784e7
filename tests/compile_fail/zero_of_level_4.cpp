// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// ZeRO has the levels 0 to 3. `Quantized` stores `Block16`, `Block8` or `Block4`.
// expect: LayoutError<Reason::argument_of_the_style_is_not_allowed, Got<Zero<4, dp>>, Cure<Hint::use_a_level_of_0_to_3>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/parallel/zero.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto make(const Mesh<dp>& mesh) {
  return Linear<Mesh<dp>, Zero<4, dp>>(mesh, 64, 256);
}
#else
auto make(const Mesh<dp>& mesh) {
  return Linear<Mesh<dp>, Zero<3, dp>>(mesh, 64, 256);
}
#endif
