// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// An operation takes up to four operands.
// expect: LayoutError<Reason::more_operands_than_four, Cure<Hint::join_four_at_most_and_cat_the_results>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Rows = Tensor<float, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto joined(const Rows& x) {
  return cat<1>(x, x, x, x, x);
}
#else
auto joined(const Rows& x) {
  return cat<1>(cat<1>(x, x, x, x), x);
}
#endif
