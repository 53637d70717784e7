// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// A contraction reads each operand in place, as one matrix, and copies nothing. The indices that are summed over must
/// stand side by side, and those of a batch must come first in all three tensors.
// expect: LayoutError<Reason::contraction_is_not_one_matrix_product, Got<Tensor<float, 3, Mesh<tp>, Replicate>, Tensor<float, 2, Mesh<tp>, Replicate>>, Cure<Hint::transpose_until_batch_indices_come_first_and_summed_ones_together>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/contract.hpp>
#include <shardwise/ops/transpose.hpp>

using namespace shardwise;
template <int Rank>
using Whole = Tensor<float, Rank, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
auto product(const Whole<3>& x, const Whole<2>& w) {
  return contract<"imj, ij -> m">(x, w);
}
#else
auto product(const Whole<3>& x, const Whole<2>& w) {
  return contract<"mij, ij -> m">(transpose<0, 1>(x), w);
}
#endif
