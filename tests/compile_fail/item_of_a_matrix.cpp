// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operands_do_not_fit_in_rank, Got<Tensor<float, 2,
// expect: Cure<Hint::reduce_it_by_sum_or_mean_first>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;
template <class P>
using Scalar = Tensor<float, 0, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
float value(const Matrix<Replicate>& x) {
  return item(x);
}
#else
float value(const Scalar<Replicate>& x) {
  return item(x);
}
#endif
