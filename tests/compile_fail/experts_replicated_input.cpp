// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// Each rank computes the results of its own experts, so each has another term of the gradient of x.
// expect: LayoutError<Reason::replicated_operand_meets_blocks_so_its_gradient_would_be_pending, On<ep>, Expected<Reduced, Replicate, Reduced, Shard<0>, Shard<0>>, Got<Replicate, Replicate, Reduced, Shard<0>, Shard<0>>, Cure<Hint::redistribute_to_Reduced_which_is_free>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/experts.hpp>

using namespace shardwise;
template <class T, int Rank, class P>
using Sharded = Tensor<T, Rank, Mesh<ep>, P>;

auto mixed(const Sharded<float, 2, Replicate>& x, const Sharded<std::int64_t, 2, Replicate>& ids,
           const Sharded<float, 2, Reduced>& weights, const Sharded<float, 4, Shard<0>>& gate_up,
           const Sharded<float, 3, Shard<0>>& down) {
#ifdef SHOULD_FAIL
  return experts(x, ids, weights, gate_up, down);
#else
  return experts(redistribute<ep, Reduced>(x), ids, weights, gate_up, down);
#endif
}
