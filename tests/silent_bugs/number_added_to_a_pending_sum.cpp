// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A number added to a pending sum
// thread: pytorch/pytorch #163193 (also #145218 and #149768)
// there: Every rank added the number to its own term, so the finished sum had it as many times as there were ranks: 65 instead of 45 + 10.
// here: does not compile
// tour: 1
/// `sum` over cut rows is a term on each rank, and its type says so: `Partial<Sum>`. A value
/// that all ranks have in full is `Replicate`. The two have no sum until the terms have one.
// expect: LayoutError<Reason::pending_sum_meets_a_finished_value, On<tp>, Expected<Partial<>, Partial<>>, Got<Partial<>, Replicate>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/add.hpp>
#include <shardwise/ops/reduction.hpp>

using namespace shardwise;
using Rows = Tensor<double, 1, Mesh<tp>, Shard<0>>;
using Number = Tensor<double, 0, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
auto sum_and(const Rows& x, const Number& number) { return add(sum(x), number); }
#else
auto sum_and(const Rows& x, const Number& number) { return add(redistribute<tp, Replicate>(sum(x)), number); }

TEST_CASE("0 + 1 + ... + 9 and 10 are 55") {
  const Mesh<tp> mesh(world(), {any});
  const auto x = distribute<Shard<0>>(mesh, Eigen::VectorXd::LinSpaced(10, 0, 9));
  CHECK(item(sum_and(x, full<double, Replicate>(mesh, Shape<0>{}, 10.))) == 55);
}
#endif
