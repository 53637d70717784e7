// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// Each rank holds the largest element of its block. No operation commutes with
/// the pending maximum, not even a multiplication, so finish the maximum first.
// expect: LayoutError<Reason::pending_maximum_or_minimum_must_be_reduced_first, On<tp>, Expected<Replicate>, Got<Partial<Max>>, Cure<Hint::redistribute_to_Replicate_to_finish_the_reduction>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/reduction.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto half_of_largest(const Matrix<Shard<0>>& x) {
  return scale(max(x), 0.5);  // max of blocks is Partial<Max>
}
#else
auto half_of_largest(const Matrix<Shard<0>>& x) {
  return scale(redistribute<tp, Replicate>(max(x)), 0.5);
}
#endif
