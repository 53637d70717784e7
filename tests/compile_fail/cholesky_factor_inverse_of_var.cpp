// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operation_has_no_gradient, .*Cure<Hint::use_its_value>>

#include <shardwise/linalg/cholesky_factor.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
using Matrix = Tensor<float, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto inverse(const Var<Matrix>& a) {
  return CholeskyFactor(a).inverse();
}
#else
auto inverse(const Var<Matrix>& a) {
  return CholeskyFactor(a.value()).inverse();
}
#endif
