// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::reshape_cannot_keep_this_dimension_sharded, On<tp>, Expected<Shard<0>>, Got<Shard<1>>, Cure<Hint::redistribute_to_Replicate_first>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/reshape.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto flat(const Matrix<Shard<1>>& x) {
  return reshape(x, {64 * 32});
}
#else
auto flat(const Matrix<Shard<0>>& x) {
  return reshape(x, {64 * 32});
}
#endif
