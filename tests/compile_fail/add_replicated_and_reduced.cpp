// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// Both operands are whole on every rank. But `Replicate` promises the same work
/// on every rank, and `Reduced` promises different work. The choice between the
/// two for the result decides which gradients the backward pass sums; state it.
// expect: LayoutError<Reason::replicated_operand_meets_reduced_one, On<tp>, Expected<Reduced, Reduced>, Got<Replicate, Reduced>, Cure<Hint::redistribute_to_Reduced_which_is_free>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/add.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto both(const Matrix<Replicate>& x, const Matrix<Reduced>& y) {
  return add(x, y);
}
#else
auto both(const Matrix<Replicate>& x, const Matrix<Reduced>& y) {
  return add(redistribute<tp, Reduced>(x), y);
}
#endif
