// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// The second operand of `x / y` has the last dimensions of the first, as in NumPy: here the columns of x. So a number
/// for each row is not divided by, but multiplied with, by `contract`.
// expect: LayoutError<Reason::operands_sharded_on_different_dimensions, On<tp>, Expected<Shard<1>, Shard<0>>, Got<Shard<0>, Shard<0>>, Cure<Hint::last_dimensions_meet_so_scale_rows_by_contract_rc_r_to_rc>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Rows = Tensor<float, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto normalized(const Rows& x) {
  return x / norm<1>(x);
}
#else
auto normalized(const Rows& x) {
  return contract<"rc, r -> rc">(x, reciprocal(norm<1>(x)));
}
#endif
