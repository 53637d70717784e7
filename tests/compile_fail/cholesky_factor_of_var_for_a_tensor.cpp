// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::tensor_off_the_tape_meets_one_on_it_so_its_gradient_would_be_lost, .*Cure<Hint::use_the_Var_or_parameter_not_its_value_or_alongside_if_it_is_data>>

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
  return CholeskyFactor(a).solve(alongside(b, a));
}
#endif
