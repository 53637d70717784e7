// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// A solution in double needs a matrix of double.
// expect: Reason::unsupported_element_type
// expect: Got<float>
// expect: Hint::call_solve_which_computes_in_float

#include <shardwise/linalg/solve_mixed.hpp>
#include <shardwise/shardwise.hpp>

using namespace shardwise;

using Matrix = Tensor<float, 2, Mesh<dp>, Shard<0>>;

auto solution(const Matrix& a, const Matrix& b) {
#ifdef SHOULD_FAIL
  return solve_mixed(a, b);
#else
  return solve(a, b);
#endif
}
