// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// The second operand is the one that is used for each row: sub takes no row first.
// expect: LayoutError<Reason::operands_do_not_fit_in_rank, Got<Tensor<float, 1, Mesh<tp>, Reduced>, Tensor<float, 2, Mesh<tp>, Shard<0>>>, Cure<Hint::see_the_shapes_it_takes>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Row = Tensor<float, 1, Mesh<tp>, Reduced>;
using Rows = Tensor<float, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto difference(const Row& a, const Rows& b) {
  return a - b;
}
#else
auto difference(const Row& a, const Rows& b) {
  return -(b - a);
}
#endif
