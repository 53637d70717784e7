// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operation_needs_this_dimension_whole_on_every_rank, On<tp>, Expected<Shard<0>, Reduced, Reduced>, Got<Shard<1>, Reduced, Reduced>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/layer_norm.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;
template <class P>
using Vector = Tensor<float, 1, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto normalise(const Matrix<Shard<1>>& x, const Vector<Reduced>& gain, const Vector<Reduced>& shift) {
  return layer_norm(x, gain, shift);
}
#else
auto normalise(const Matrix<Shard<0>>& x, const Vector<Reduced>& gain, const Vector<Reduced>& shift) {
  return layer_norm(x, gain, shift);
}
#endif
