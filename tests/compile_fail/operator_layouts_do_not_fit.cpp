// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// `x + y` is refused where `add(x, y)` is, and `x - y` where `sub(x, y)` is, with the same words.
// expect: LayoutError<Reason::pending_sum_meets_a_finished_value, On<tp>, Expected<Partial<>, Partial<>>, Got<Partial<>, Replicate>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto residual(const Matrix<Partial<>>& x, const Matrix<Replicate>& y) {
  return x + y;
}
#else
auto residual(const Matrix<Partial<>>& x, const Matrix<Replicate>& y) {
  return redistribute<tp, Replicate>(x) + y;
}
#endif
