// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// The product sums over the last dimension of both operands. One operand is cut
/// there and the other is whole, so the parts on a rank do not fit together. Cut
/// both, which gives a pending sum, or gather the one that is cut.
// page: clang++ too
// expect: LayoutError<Reason::contracted_dimension_sharded_on_one_side_only, On<tp>, Expected<Shard<1>, Shard<1>>, Got<Shard<1>, Reduced>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/linear.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto product(const Matrix<Shard<1>>& x, const Matrix<Reduced>& weight) {
  return linear(x, weight);
}
#else
auto product(const Matrix<Shard<1>>& x, const Matrix<Shard<1>>& weight) {
  return linear(x, weight);  // each rank has a term: Partial<Sum>
}
#endif
