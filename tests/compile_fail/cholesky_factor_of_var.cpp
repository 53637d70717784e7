// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: CholeskyFactor<LayoutError<Reason::operation_has_no_gradient, Got<Var<Tensor<float, 2, Mesh<tp>, Shard<0>>, true>>, Cure<Hint::use_its_value>>>|CholeskyFactor<LayoutError<Reason::operation_has_no_gradient, Got<Var<Tensor<float, 2, Mesh<tp>, Shard<0>>>>, Cure<Hint::use_its_value>>>

#include <shardwise/linalg/cholesky_factor.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
using Matrix = Tensor<float, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto solution(const Var<Matrix>& a, const Matrix& b) {
  return CholeskyFactor(a).solve(b);
}
#else
auto solution(const Var<Matrix>& a, const Matrix& b) {
  return CholeskyFactor(a.value()).solve(b);
}
#endif
