// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// The mesh of this tensor has other axes: `Expected` lists them.
// expect: LayoutError<Reason::mesh_has_no_such_axis, Expected<AxisList<dp, tp>>, Got<pp>, Cure<Hint::name_an_axis_of_the_mesh>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/redistribute.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;
template <class... P>
using Matrix = Tensor<float, 2, Grid, P...>;

#ifdef SHOULD_FAIL
auto gathered(const Matrix<Shard<0>, Shard<1>>& x) {
  return redistribute<pp, Replicate>(x);
}
#else
auto gathered(const Matrix<Shard<0>, Shard<1>>& x) {
  return redistribute<tp, Replicate>(x);
}
#endif
