// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::argument_is_not_a_style, Got<dp>, Cure<Hint::pass_a_style_such_as_ColwiseParallel_or_Frozen>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/parallel/zero.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;

#ifdef SHOULD_FAIL
auto make(const Grid& mesh) {
  return Linear<Grid, Styles<ColwiseParallel<tp>, dp>>(mesh, 4, 8);
}
#else
auto make(const Grid& mesh) {
  return Linear<Grid, Styles<ColwiseParallel<tp>, FullyShard<dp>>>(mesh, 4, 8);
}
#endif
