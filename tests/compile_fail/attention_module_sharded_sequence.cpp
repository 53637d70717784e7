// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operation_needs_this_dimension_whole_on_every_rank, On<dp>, Expected<Shard<1>, Reduced, Reduced>, Got<Shard<1>, Shard<1>, Shard<1>>, Cure<Hint::redistribute_to_what_is_Expected>, Of<AttentionOp>, In<InnerAttention>, InA<Attention>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/attention.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;
template <class... P>
using Batch = Tensor<float, 3, Grid, P...>;  // [batch, sequence, features]

#ifdef SHOULD_FAIL
auto call(const Attention<Grid>& attention, const Batch<Shard<1>, Replicate>& x) {
  return attention(x);
}
#else
auto call(const Attention<Grid>& attention, const Batch<Shard<0>, Replicate>& x) {
  return attention(x);
}
#endif
