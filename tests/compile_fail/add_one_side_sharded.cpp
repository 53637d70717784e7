// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// The two operands share a dimension. One of them has it in blocks, and the other has it whole.
// expect: LayoutError<Reason::dimension_sharded_on_one_side_only, On<tp>, Expected<Shard<0>, Shard<0>>, Got<Shard<0>, Reduced>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/add.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto both(const Matrix<Shard<0>>& x, const Matrix<Reduced>& y) {
  return add(x, y);
}
#else
auto both(const Matrix<Shard<0>>& x, const Matrix<Reduced>& y) {
  return add(x, redistribute<tp, Shard<0>>(y));  // takes a slice, sends nothing
}
#endif
