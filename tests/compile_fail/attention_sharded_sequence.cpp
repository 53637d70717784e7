// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operation_needs_this_dimension_whole_on_every_rank, On<tp>, Expected<Shard<1>, Reduced, Reduced>, Got<Shard<1>, Shard<1>, Shard<1>>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/attention.hpp>

using namespace shardwise;
template <class P>
using Heads = Tensor<float, 4, Mesh<tp>, P>;  // [batch, sequence, heads, head_dim]

#ifdef SHOULD_FAIL
auto attend(const Heads<Shard<1>>& q, const Heads<Shard<1>>& k, const Heads<Shard<1>>& v) {
  return attention(q, k, v);
}
#else
auto attend(const Heads<Shard<2>>& q, const Heads<Shard<2>>& k, const Heads<Shard<2>>& v) {
  return attention(q, k, v);
}
#endif
