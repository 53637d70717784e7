// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::one_placement_per_mesh_axis_is_needed, Expected<AxisList<dp, tp>>, Got<Shard<0>>, Cure<Hint::give_one_placement_per_axis>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/reshape.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;
template <class... P>
using Matrix = Tensor<float, 2, Grid, P...>;

#ifdef SHOULD_FAIL
auto flat(const Matrix<Shard<0>, Replicate>& x) {
  return reshape<Shard<0>>(x, {64 * 32});
}
#else
auto flat(const Matrix<Shard<0>, Replicate>& x) {
  return reshape<Shard<0>, Replicate>(x, {64 * 32});
}
#endif
