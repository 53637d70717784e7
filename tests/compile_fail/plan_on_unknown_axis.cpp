// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::mesh_has_no_such_axis, Expected<AxisList<dp, tp>>, Got<pp>, Cure<Hint::give_the_mesh_this_axis_where_its_size_may_be_1>>

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
using Parallel = Plan<Use<"up", ColwiseParallel<tp>>, Use<"down", RowwiseParallel<pp>>>;
auto make(const Grid& mesh) {
  return FeedForward<Parallel>(mesh);
}
#else
using Parallel = Plan<Use<"up", ColwiseParallel<tp>>, Use<"down", RowwiseParallel<tp>>>;
auto make(const Grid& mesh) {
  return FeedForward<Parallel>(mesh);
}
#endif
