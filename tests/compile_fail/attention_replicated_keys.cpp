// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::replicated_operand_meets_blocks_so_its_gradient_would_be_pending, On<tp>, Expected<Shard<2>, Reduced, Reduced>, Got<Shard<2>, Replicate, Replicate>, Cure<Hint::redistribute_to_Reduced_which_is_free>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/attention.hpp>

using namespace shardwise;
template <class P>
using Heads = Tensor<float, 4, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto attend(const Heads<Shard<2>>& q, const Heads<Replicate>& k, const Heads<Replicate>& v) {
  return attention(q, k, v);
}
#else
auto attend(const Heads<Shard<2>>& q, const Heads<Replicate>& k, const Heads<Replicate>& v) {
  return attention(q, redistribute<tp, Reduced>(k), redistribute<tp, Reduced>(v));
}
#endif
