// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// Two entries of a plan name the same module, `Expected`. No entry has priority over another.
// page: clang++ too
// expect: LayoutError<Reason::plan_names_a_module_twice, Expected<Name<down>>, Got<Name<.>, Name<down>>, Cure<Hint::keep_one_of_the_two>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/parallel/plan_problem.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;

template <class PlanType>
struct FeedForward {
  static constexpr std::array modules{ModuleName{"up", ModuleKind::linear},
                                      ModuleName{"down", ModuleKind::linear}};
  using Problem = plan_problem<Grid, PlanType, modules>;

  explicit FeedForward(const Grid& mesh) requires WellFormed<Problem> : up(mesh, 64, 256),
                                                                        down(mesh, 256, 64) {
  }
  template <IllFormed Why = Problem>
  explicit FeedForward(const Grid&) = delete;

  Linear<Grid, style_of<PlanType, "up">> up;
  Linear<Grid, style_of<PlanType, "down">> down;
};

#ifdef SHOULD_FAIL
using Parallel = Plan<Use<"*", ColwiseParallel<tp>>, Use<"down", RowwiseParallel<tp>>>;
auto make(const Grid& mesh) {
  return FeedForward<Parallel>(mesh);
}
#else
using Parallel = Plan<Use<"up", ColwiseParallel<tp>>, Use<"down", RowwiseParallel<tp>>>;
auto make(const Grid& mesh) {
  return FeedForward<Parallel>(mesh);
}
#endif
