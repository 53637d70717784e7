// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::plan_leaves_a_module_without_a_style, Expected<Name<dwon>>, Got<Name<down>>, Cure<Hint::name_it_with_a_style_or_NoParallel>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/parallel/plan.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;
using Parallel = Plan<Use<"up", ColwiseParallel<tp>>, Use<"down", RowwiseParallel<tp>>>;

#ifdef SHOULD_FAIL
auto make(const Grid& mesh) {
  return Linear<Grid, style_of<Parallel, "dwon">>(mesh, 256, 64);
}
#else
auto make(const Grid& mesh) {
  return Linear<Grid, style_of<Parallel, "down">>(mesh, 256, 64);
}
#endif
