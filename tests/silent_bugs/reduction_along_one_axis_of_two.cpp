// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A reduction that the partitioner leaves out
// thread: openxla/xla #40034
// there: A product was pending on several axes. It went to a layout that is sharded on some of them and replicated on others, without the all-reduce over the latter. On 4096 devices replicas differed.
// here: the plan differs
/// Shardwise infers no reduction: a value stays pending on an axis until a `redistribute` names that
/// axis, and the type of the result shows it. The compiler counts the messages on 64 x 64 ranks.
// expect: static(_assert| assertion) failed

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
constexpr auto finished(const auto& x) { return redistribute<dp, Shard<0>>(x); }
#else
constexpr auto finished(const auto& x) { return redistribute<Shard<0>, Replicate>(x); }

TEST_CASE("pending on two axes, sharded on one and replicated on the other") {
  const Mesh<dp, tp> mesh(world(), {world().size() % 2 == 0 ? 2 : 1, any});
  const auto terms = from_local<Partial<>, Partial<>>(mesh, Eigen::VectorXd::Ones(8));
  CHECK(full_tensor(finished(terms)).isApproxToConstant(mesh.size()));
}
#endif

constexpr auto planned = trace<Mesh<dp, tp>>(
    {64, 64}, [](const auto& mesh) { finished(empty<double, Partial<>, Partial<>>(mesh, {8192})); });
constexpr auto reductions = planned.count<tp>(Collective::all_reduce);
static_assert(reductions == 1);
