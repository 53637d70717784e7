// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: Thirty reductions where ten would do
// thread: pytorch/pytorch #121669
// there: A step of Adam made 30 all-reduces, where 5 or 10 were expected. The gradients of ten parameters were pending, and each operation that used one reduced it again.
// here: the plan differs
/// The result is right, and late. The compiler counts the messages of a program, and a `static_assert` fixes
/// the number. (An optimizer of the library reduces all gradients together, in one call for up to 8 MiB.)
// expect: static(_assert| assertion) failed

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
constexpr auto moments(const auto& pending) {
  auto first = scale(redistribute<tp, Replicate>(pending), 0.1);
  auto second = scale(mul(redistribute<tp, Replicate>(pending), redistribute<tp, Replicate>(pending)), 0.001);
  return std::pair(first, second);
}
#else
constexpr auto moments(const auto& pending) {
  const auto gradient = redistribute<tp, Replicate>(pending);
  return std::pair(scale(gradient, 0.1), scale(mul(gradient, gradient), 0.001));
}

TEST_CASE("the moments of a gradient of 1 + 2") {
  const Mesh<tp> mesh(world(), {any});
  const double terms[]{1, 2, 0};  // of the first rank, the second, and others
  const auto [first, second] =
      moments(from_local<Partial<>>(mesh, Eigen::VectorXd::Constant(4, terms[std::min(mesh.rank(), 2)])));
  CHECK(full_tensor(first).isApproxToConstant(0.3));
  CHECK(full_tensor(second).isApproxToConstant(0.009));
}
#endif

constexpr auto planned =
    trace<Mesh<tp>>({8}, [](const auto& mesh) { moments(empty<double, Partial<>>(mesh, {4})); });
constexpr auto reductions = planned.count(Collective::all_reduce);
static_assert(reductions == 1);
