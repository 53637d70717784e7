// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// Styles can be combined if each has axes of its own.
// expect: LayoutError<Reason::styles_name_one_axis_twice, On<tp>, Got<ColwiseParallel<tp.*>, CopyParallel<AxisList<tp, kvr>>>, Cure<Hint::give_each_axis_one_style>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>

using namespace shardwise;
using Grid = Mesh<tp, kvr>;

#ifdef SHOULD_FAIL
auto make(const Grid& mesh) {
  return Linear<Grid, Styles<ColwiseParallel<tp>, CopyParallel<AxisList<tp, kvr>>>>(mesh, 64, 256);
}
#else
auto make(const Grid& mesh) {
  return Linear<Grid, Styles<ColwiseParallel<tp>, CopyParallel<kvr>>>(mesh, 64, 256);
}
#endif
