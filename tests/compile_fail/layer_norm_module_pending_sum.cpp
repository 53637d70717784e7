// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operation_is_not_linear_so_it_needs_the_finished_sum, On<tp>, Expected<Replicate, Replicate, Replicate>, Got<Partial<>, Replicate, Replicate>, Cure<Hint::redistribute_to_Replicate_to_finish_the_reduction>, Of<LayerNormOp>, InA<LayerNorm>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/layer_norm.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;
template <class... P>
using Batch = Tensor<float, 3, Grid, P...>;  // [batch, sequence, features]

#ifdef SHOULD_FAIL
auto call(const LayerNorm<Grid>& norm, const Batch<Shard<0>, Partial<>>& x) {
  return norm(x);
}
#else
auto call(const LayerNorm<Grid>& norm, const Batch<Shard<0>, Replicate>& x) {
  return norm(x);
}
#endif
