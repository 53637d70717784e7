// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// The norms of the blocks are no terms of the norm of the whole: neither their sum nor their maximum is.
/// Their squares are.
// expect: LayoutError<Reason::contracted_blocks_have_no_pending_form, On<tp>, Expected<Replicate>, Got<Shard<0>>, Cure<Hint::use_sum_of_squares_then_redistribute>>

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
