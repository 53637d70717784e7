// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::one_placement_per_mesh_axis_is_needed, Expected<AxisList<dp, tp>>, Got<Replicate>, Cure<Hint::give_one_placement_per_axis>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/redistribute.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;
template <class... P>
using Matrix = Tensor<float, 2, Grid, P...>;

#ifdef SHOULD_FAIL
auto gathered(const Matrix<Shard<0>, Shard<1>>& x) {
  return redistribute<Replicate>(x);
}
#else
auto gathered(const Matrix<Shard<0>, Shard<1>>& x) {
  return redistribute<Replicate, Replicate>(x);
}
#endif
