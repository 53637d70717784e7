// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// One mesh axis cuts one dimension. Here it cuts the two operands along different dimensions, rows and columns.
// expect: LayoutError<Reason::operands_sharded_on_different_dimensions, On<tp>, Expected<Shard<0>, Shard<0>>, Got<Shard<0>, Shard<1>>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/add.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto both(const Matrix<Shard<0>>& x, const Matrix<Shard<1>>& y) {
  return add(x, y);
}
#else
auto both(const Matrix<Shard<0>>& x, const Matrix<Shard<1>>& y) {
  return add(x, redistribute<tp, Shard<0>>(y));  // an all-to-all
}
#endif
