// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operation_needs_this_dimension_whole_on_every_rank, On<tp>, Expected<Replicate>, Got<Shard<0>>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/linalg/cholesky.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto factor(const Matrix<Shard<0>>& a) {
  return cholesky(a);
}
#else
auto factor(const Matrix<Shard<0>>& a) {
  return cholesky(redistribute<tp, Replicate>(a));
}
#endif
