// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// Where two axes cut one dimension, the right axis cuts the blocks of the left one. So the left axis
/// must cut the parameter at least as early. Give it the same or a higher level, or swap the axes.
// expect: LayoutError<Reason::outer_data_axis_has_the_lower_zero_level, Got<Zero<1, replica>, Zero<3, dp>>, Cure<Hint::give_the_left_axis_the_higher_level>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/parallel/zero.hpp>

using namespace shardwise;

struct replica {
  static constexpr const char* name = "replica";
  static constexpr bool data = true;
};
using Grid = Mesh<replica, dp>;

#ifdef SHOULD_FAIL
auto make(const Grid& mesh) {
  return Linear<Grid, Styles<Zero<1, replica>, FullyShard<dp>>>(mesh, 64, 256);
}
#else
auto make(const Grid& mesh) {
  return Linear<Grid, Styles<FullyShard<replica>, Zero<1, dp>>>(mesh, 64, 256);
}
#endif
