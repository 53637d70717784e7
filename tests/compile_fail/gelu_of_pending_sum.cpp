// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// Each rank holds a term, and the value is the sum of the terms. The sum of gelu of the terms differs from
/// gelu of their sum. Finish the sum first: to `Replicate` by an all-reduce, or to `Shard` by a reduce-scatter.
// page: clang++ too
// expect: LayoutError<Reason::operation_is_not_linear_so_it_needs_the_finished_sum, On<tp>, Expected<Replicate>, Got<Partial<>>, Cure<Hint::redistribute_to_Replicate_to_finish_the_reduction>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/activation.hpp>
#include <shardwise/ops/linear.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto activated(const Matrix<Shard<1>>& x, const Matrix<Shard<1>>& weight) {
  auto h = linear(x, weight);  // Partial<Sum>
  return gelu(h);
}
#else
auto activated(const Matrix<Shard<1>>& x, const Matrix<Shard<1>>& weight) {
  auto h = linear(x, weight);
  return gelu(redistribute<tp, Replicate>(h));
}
#endif
