// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operation_has_no_gradient, Got<Tensor<double, 2, Mesh<tp>, Shard<0>>, Var<Tensor<double, 1, Mesh<tp>, Replicate>.*>>, Cure<Hint::use_its_value>>

#include <shardwise/linalg/cholesky_factor.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
using Matrix = Tensor<double, 2, Mesh<tp>, Shard<0>>;
using Vector = Tensor<double, 1, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
auto solution(const CholeskyFactor<Matrix>& factor, const Var<Vector>& b) {
  return factor.solve(b);
}
#else
auto solution(const CholeskyFactor<Matrix>& factor, const Var<Vector>& b) {
  return factor.solve(b.value());
}
#endif
