// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// Parameters are sharded over axes of samples, and no other style of the module may name such an axis.
// expect: LayoutError<Reason::styles_name_one_axis_twice, On<tp>, Got<ColwiseParallel<tp.*>, Zero<3, tp>>, Cure<Hint::give_each_axis_one_style>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/parallel/zero.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;

#ifdef SHOULD_FAIL
auto make(const Grid& mesh) {
  return Linear<Grid, Styles<ColwiseParallel<tp>, FullyShard<tp>>>(mesh, 64, 256);
}
#else
auto make(const Grid& mesh) {
  return Linear<Grid, Styles<ColwiseParallel<tp>, FullyShard<dp>>>(mesh, 64, 256);
}
#endif
