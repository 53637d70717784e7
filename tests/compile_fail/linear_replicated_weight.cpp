// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// Every rank uses the weight on rows of its own, so each rank computes another gradient
/// for it: a term of a sum. `Replicate` promises the same gradient on every rank.
/// `Reduced` has the same bytes, used on different data. The conversion to `Reduced`
/// costs nothing; its gradient is a `Partial<Sum>`, which is reduced when it is needed.
// expect: LayoutError<Reason::replicated_operand_meets_blocks_so_its_gradient_would_be_pending, On<tp>, Expected<Shard<0>, Reduced>, Got<Shard<0>, Replicate>, Cure<Hint::redistribute_to_Reduced_which_is_free>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/linear.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto product(const Matrix<Shard<0>>& rows, const Matrix<Replicate>& weight) {
  return linear(rows, weight);
}
#else
auto product(const Matrix<Shard<0>>& rows, const Matrix<Replicate>& weight) {
  return linear(rows, redistribute<tp, Reduced>(weight));
}
#endif
