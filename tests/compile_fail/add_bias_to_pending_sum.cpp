// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// Every rank would add the whole bias to its term. The finished sum would then have the bias as many
/// times as there are ranks. Make the bias a term as well (which is local), or finish the sum first.
// expect: LayoutError<Reason::pending_sum_meets_a_finished_value, On<tp>, Expected<Partial<>, Partial<>>, Got<Partial<>, Replicate>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/add.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;
template <class P>
using Vector = Tensor<float, 1, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto biased(const Matrix<Partial<>>& x, const Vector<Replicate>& bias) {
  return add(x, bias);
}
#else
auto biased(const Matrix<Partial<>>& x, const Vector<Replicate>& bias) {
  return add(x, redistribute<tp, Partial<>>(bias));  // one rank keeps it, the others add zero
}
#endif
