// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::contracted_dimension_sharded_on_one_side_only, On<dp>, Expected<Shard<1>, Shard<1>>, Got<Shard<1>, Reduced>, Cure<Hint::redistribute_to_what_is_Expected>, Of<LinearOp<1>>, In<Linear<.*>>, InA<Mlp>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/mlp.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;
template <class... P>
using Matrix = Tensor<float, 2, Grid, P...>;

#ifdef SHOULD_FAIL
auto call(const Mlp<Grid>& layer, const Matrix<Shard<1>, Replicate>& x) {
  return layer(x);
}
#else
auto call(const Mlp<Grid>& layer, const Matrix<Shard<0>, Replicate>& x) {
  return layer(x);
}
#endif
