// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// A style names its axis: `ColwiseParallel<tp>`.
// expect: LayoutError<Reason::mesh_has_no_such_axis, Expected<AxisList<tp>>, Got<detail::no_axis_in_angle_brackets>, Cure<Hint::name_an_axis_of_the_mesh>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto layer(const Mesh<tp>& mesh) {
  return Linear<Mesh<tp>, ColwiseParallel<>>(mesh, 4, 4);
}
#else
auto layer(const Mesh<tp>& mesh) {
  return Linear<Mesh<tp>, ColwiseParallel<tp>>(mesh, 4, 4);
}
#endif
