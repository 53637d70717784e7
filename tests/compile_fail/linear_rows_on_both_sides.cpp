// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operands_sharded_on_different_dimensions, On<tp>, Expected<Shard<0>, Reduced>, Got<Shard<0>, Shard<0>>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/linear.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto product(const Matrix<Shard<0>>& x, const Matrix<Shard<0>>& weight) {
  return linear(x, weight);
}
#else
auto product(const Matrix<Shard<0>>& x, const Matrix<Shard<0>>& weight) {
  return linear(redistribute<tp, Reduced>(x), weight);
}
#endif
