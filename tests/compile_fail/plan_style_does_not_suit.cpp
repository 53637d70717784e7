// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// A style fits certain kinds of modules. `SequenceParallel` is for norms and
/// dropout, the column-wise and row-wise styles are for layers that multiply, and
/// `PrepareModuleInput` and its kin are for modules that consist of other modules.
// page: clang++ too
// expect: LayoutError<Reason::style_does_not_suit_the_module, Got<Name<down>, SequenceParallel<tp, 1>>, Cure<Hint::see_which_modules_the_style_applies_to>>

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
using Parallel = Plan<Use<"up", ColwiseParallel<tp>>, Use<"down", SequenceParallel<tp>>>;
auto make(const Grid& mesh) {
  return FeedForward<Parallel>(mesh);
}
#else
using Parallel = Plan<Use<"up", ColwiseParallel<tp>>, Use<"down", RowwiseParallel<tp>>>;
auto make(const Grid& mesh) {
  return FeedForward<Parallel>(mesh);
}
#endif
