// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: The norm of a pending sum
// thread: pytorch/pytorch #159856
// there: Each rank took the norm of its term, and the norms were added up. But the norm of a sum is not the sum of the norms: 5.40 instead of 5 for (1, 3) + (2, 1).
// here: does not compile
// expect: LayoutError<Reason::operation_is_not_linear_so_it_needs_the_finished_sum, On<tp>, Expected<Replicate>, Got<Partial<>>, Cure<Hint::redistribute_to_Replicate_to_finish_the_reduction>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/reduction.hpp>

using namespace shardwise;
using Terms = Tensor<double, 1, Mesh<tp>, Partial<>>;

#ifdef SHOULD_FAIL
auto length(const Terms& x) { return norm(x); }
#else
auto length(const Terms& x) { return norm(redistribute<tp, Replicate>(x)); }

TEST_CASE("the norm of (1, 3) + (2, 1) is 5") {
  const Mesh<tp> mesh(world(), {any});
  const Eigen::Vector2d terms[]{{1, 3}, {2, 1}, {0, 0}};  // of the first rank, the second, and others
  CHECK(item(length(from_local<Partial<>>(mesh, terms[std::min(mesh.rank(), 2)]))) == 5);
}
#endif
