// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// `project` redistributes its input once, so all layers must take it in the same layout.
// expect: LayoutError<Reason::layers_expect_different_input_layouts, Got<.*>, Cure<Hint::call_them_one_by_one>, In<detail::Project>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/nn/project.hpp>
#include <shardwise/parallel/plan.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;

#ifdef SHOULD_FAIL
auto both(const Linear<Grid, ColwiseParallel<tp>>& a, const Linear<Grid, RowwiseParallel<tp>>& b,
          const Tensor<float, 2, Grid, Shard<0>, Shard<1>>& x) {
  return project(x, a, b);
}
#else
auto both(const Linear<Grid, ColwiseParallel<tp>>& a, const Linear<Grid, RowwiseParallel<tp>>& b,
          const Tensor<float, 2, Grid, Shard<0>, Shard<1>>& x) {
  return std::tuple(a(x), b(x));
}
#endif
