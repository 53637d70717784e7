// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// Each rank would join its own blocks: their rows would lie in another order than in
// the whole tensor. So the dimension must be whole.
// expect: LayoutError<Reason::operation_needs_this_dimension_whole_on_every_rank, On<tp>, Expected<Shard<1>, Shard<1>>, Got<Shard<0>, Shard<0>>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/cat.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto joined_rows(const Matrix<Shard<0>>& a, const Matrix<Shard<0>>& b) {
  return cat<0>(a, b);
}
#else
auto joined_rows(const Matrix<Shard<0>>& a, const Matrix<Shard<0>>& b) {
  return cat<0>(redistribute<Shard<1>>(a), redistribute<Shard<1>>(b));
}
#endif
