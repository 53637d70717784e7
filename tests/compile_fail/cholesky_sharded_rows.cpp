// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operation_needs_this_dimension_whole_on_every_rank, On<tp>, Expected<Replicate>, Got<Shard<0>>, Cure<Hint::use_CholeskyFactor_which_takes_blocks>>

#include <shardwise/linalg/cholesky.hpp>
#include <shardwise/linalg/cholesky_factor.hpp>
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
  return CholeskyFactor(a);  // solve(b)
}
#endif
