// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::dimension_sharded_on_one_side_only, On<tp>, Expected<Shard<2>, Shard<2>, Shard<2>>, Got<Reduced, Shard<2>, Shard<2>>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/attention.hpp>

using namespace shardwise;
template <class P>
using Heads = Tensor<float, 4, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto attend(const Heads<Reduced>& q, const Heads<Shard<2>>& k, const Heads<Shard<2>>& v) {
  return attention(q, k, v);
}
#else
auto attend(const Heads<Shard<2>>& q, const Heads<Shard<2>>& k, const Heads<Shard<2>>& v) {
  return attention(q, k, v);
}
#endif
