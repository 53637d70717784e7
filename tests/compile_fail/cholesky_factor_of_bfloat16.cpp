// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: CholeskyFactor<LayoutError<Reason::operation_needs_floating_point_numbers, Got<Eigen::bfloat16>, Cure<Hint::use_a_tensor_of_float_or_double>>>

#include <shardwise/linalg/cholesky_factor.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
template <class T>
using Matrix = Tensor<T, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto factor(const Matrix<Eigen::bfloat16>& a) {
  return CholeskyFactor(a);
}
#else
auto factor(const Matrix<float>& a) {
  return CholeskyFactor(a);
}
#endif
