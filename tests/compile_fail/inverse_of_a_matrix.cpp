// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::use_solve_with_what_it_would_multiply>>

#include <shardwise/shardwise.hpp>

#include <shardwise/linalg/solve.hpp>

using namespace shardwise;
using Table = Tensor<double, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto solution(const Table& a, const Table& b) {
  return matmul(inverse(a), b);
}
#else
auto solution(const Table& a, const Table& b) {
  return solve(a, b);
}
#endif
