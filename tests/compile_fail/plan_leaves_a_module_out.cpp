// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// A plan has an entry for each layer with parameters, so that none is replicated by oversight.
// page: clang++ too
// expect: LayoutError<Reason::plan_leaves_a_module_without_a_style, Got<Name<down>>, Cure<Hint::name_it_with_a_style_or_NoParallel>>

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
using Parallel = Plan<Use<"up", ColwiseParallel<tp>>>;
auto make(const Grid& mesh) {
  return FeedForward<Parallel>(mesh);
}
#else
using Parallel = Plan<Use<"up", ColwiseParallel<tp>>, Use<"down", RowwiseParallel<tp>>>;
auto make(const Grid& mesh) {
  return FeedForward<Parallel>(mesh);
}
#endif
