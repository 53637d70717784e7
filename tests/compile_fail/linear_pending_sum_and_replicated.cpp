// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::pending_sum_meets_a_finished_value, On<tp>, Expected<Partial<>, Reduced>, Got<Partial<>, Replicate>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/linear.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto product(const Matrix<Partial<>>& x, const Matrix<Replicate>& weight) {
  return linear(x, weight);
}
#else
auto product(const Matrix<Partial<>>& x, const Matrix<Reduced>& weight) {
  return linear(x, weight);
}
#endif
