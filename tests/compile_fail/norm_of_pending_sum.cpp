// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operation_is_not_linear_so_it_needs_the_finished_sum, On<tp>, Expected<Replicate>, Got<Partial<>>, Cure<Hint::redistribute_to_Replicate_to_finish_the_reduction>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/reduction.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto reduced_rows(const Matrix<Partial<>>& x) {
  return norm<1>(x);
}
#else
auto reduced_rows(const Matrix<Partial<>>& x) {
  return norm<1>(redistribute<tp, Shard<0>>(x));
}
#endif
