// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// Each rank has some of the rows of x, and all rows of the target.
// expect: LayoutError<Reason::contracted_dimension_sharded_on_one_side_only, On<dp>, Expected<Shard<0>, Shard<0>>, Got<Shard<0>, Replicate>, Cure<

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/mean_losses.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<dp>, P>;

#ifdef SHOULD_FAIL
auto loss(const Matrix<Shard<0>>& x, const Matrix<Replicate>& target) {
  return mse_loss(x, target);
}
#else
auto loss(const Matrix<Shard<0>>& x, const Matrix<Replicate>& target) {
  return mse_loss(x, redistribute_like(target, x));
}
#endif
