// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::contracted_dimension_sharded_on_one_side_only, On<tp>, Expected<Reduced, Reduced, Reduced>, Got<Reduced, Shard<1>, Reduced>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/linear.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;
template <class P>
using Vector = Tensor<float, 1, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto layer(const Matrix<Reduced>& x, const Matrix<Shard<1>>& weight, const Vector<Reduced>& bias) {
  return linear(x, weight, bias);
}
#else
auto layer(const Matrix<Shard<1>>& x, const Matrix<Shard<1>>& weight, const Vector<Partial<>>& bias) {
  return linear(x, weight, bias);
}
#endif
