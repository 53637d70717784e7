// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// A rank would multiply its two terms, but the product of two sums also has the other pairs of
/// terms. Finish one of the sums: a pending sum times a `Reduced` value stays a pending sum.
// expect: LayoutError<Reason::product_of_two_pending_sums, On<tp>, Expected<Partial<>, Reduced>, Got<Partial<>, Partial<>>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/arithmetic.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto product(const Matrix<Partial<>>& x, const Matrix<Partial<>>& y) {
  return mul(x, y);
}
#else
auto product(const Matrix<Partial<>>& x, const Matrix<Partial<>>& y) {
  return mul(x, redistribute<tp, Reduced>(y));
}
#endif
