// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// The norms of the blocks do not add up to the norm of the whole, and their
/// maximum is not that norm either. The squares of the norms do add up.
// expect: LayoutError<Reason::contracted_blocks_have_no_pending_form, On<tp>, Expected<Replicate>, Got<Shard<0>>, Cure<Hint::take_the_root_of_sum_of_squares_after_you_redistribute_it>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/reduction.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto length(const Matrix<Shard<0>>& x) {
  return norm(x);
}
#else
auto square_of_length(const Matrix<Shard<0>>& x) {
  return redistribute<tp, Replicate>(sum_of_squares(x));  // then the root
}
#endif
